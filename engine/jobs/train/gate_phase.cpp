// Gates through soft attention over a frozen base, stage after stage; each stage's gate is saved.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstdio>

#include "engine/jobs/train/checkpoint_writer.h"
#include "engine/jobs/train/gate_method.h"
#include "engine/jobs/train/gate_module.h"
#include "engine/jobs/train/gated_attention.h"
#include "engine/jobs/train/phase.h"

namespace kvscope::engine {
namespace {

constexpr double kSmallestGate = 1e-6;  // its logarithm is finite, and says "closed" in every float

/// What a batch cost, still on the device: reading it would stall the host.
struct StepLosses {
  at::Tensor all, kept_output;  // the loss, its part that keeps the model's output
  at::Tensor mean, open;        // of the gates: mean, share at the threshold or above
};

/// Adds the gradients of one batch.
StepLosses accumulate(const DecoderModule& base, const GateModule& module, const GateOptions& options,
                      const Batch& batch, const GateStep& step) {
  const GateMethod& method = *options.method;
  const at::Tensor rows = ids_tensor(batch, base.embedding().device()), ids = rows.narrow(1, 0, rows.size(1) - 1);
  at::Tensor x, teacher;
  {
    const c10::NoGradGuard no_grad;
    if (method.reads_teacher) teacher = base.hidden(ids);
    x = base.embed(ids);
  }
  std::vector<at::Tensor> gates;
  for (int layer = 0; layer < base.config().n_layers; ++layer) {
    const auto heads = module.reads_unrotated() ? base.project_unrotated(layer, x) : base.project(layer, x);
    at::Tensor gate = method.gates(module.output(layer, heads, x), module.config(), step);
    if (options.n_sink > 0) {
      const auto n_sink = std::min<std::int64_t>(options.n_sink, gate.size(2));
      gate = at::cat({at::ones_like(gate.narrow(2, 0, n_sink)), gate.narrow(2, n_sink, gate.size(2) - n_sink)}, 2);
    }
    gates.push_back(gate);
    const at::Tensor attention = gated_attention(heads.q, heads.k, heads.v, (gate + kSmallestGate).log(),
                                                 options.window, base.config().attention_scale(layer));
    x = base.finish(layer, x, attention);
  }
  const at::Tensor all_gates = at::stack(gates), student = base.final_norm(x), next = rows.narrow(1, 1, ids.size(1));
  const auto [loss, kept_output] =
      method.loss({.base = base, .next = next, .student = student, .teacher = teacher, .gates = all_gates}, step);
  loss.backward();
  const at::Tensor seen = all_gates.detach();
  const double threshold = module.config().negated ? 0.5 : options.threshold;  // a mark's gate is hard at 1/2
  return {loss.detach(), kept_output.detach(), seen.mean(), (seen >= threshold).to(at::kFloat).mean()};
}

nlohmann::json run_stage(const Training& training, const DecoderModule& base, GateModule& module,
                         const GateStage& stage) {
  const GateOptions& options = *training.recipe.gate;
  PhaseOptions phase = options;
  phase.length = stage.length;
  AdamW optimizer(module.parameters(), options.optimizer);
  StepLosses losses;
  std::int64_t n_steps = 0;
  at::manual_seed(training.recipe.seed);
  return run_steps(training, phase, *training.sequences(training.recipe.seed ^ kGateSalt), optimizer,
                   {.name = stage.name,
                    .loss_columns = {"loss_all", "loss_output", "gate_mean", "gate_open"},
                    .add_gradients =
                        [&](const Batch& batch) {
                          const double progress = phase_progress(stage.length, n_steps++, 0);
                          losses =
                              accumulate(base, module, options, batch, {.weight = stage.weight, .progress = progress});
                        },
                    .report =
                        [&](std::int64_t) {
                          const double all = losses.all.item<double>(), output = losses.kept_output.item<double>(),
                                       mean = losses.mean.item<double>(), open = losses.open.item<double>();
                          char text[112];
                          std::snprintf(text, sizeof text, "loss %.4f  output %.4f  gates mean %.3f  open %.3f", all,
                                        output, mean, open);
                          return LossReport{{all, output, mean, open}, text};
                        }});
}

}  // namespace

nlohmann::json run_gate_phase(const Training& training) {
  const Recipe& recipe = training.recipe;
  const GateOptions& options = *recipe.gate;
  const at::ScalarType type = training.device.is_cuda() ? at::kBFloat16 : at::kFloat;
  DecoderModule base(recipe.model, training.sequences(0)->length(), training.device, type, /*trained=*/false);
  read_model(training.base, base);
  GateModule module(options.method->kind, options.hidden, recipe.model, training.device);
  module.initialise(recipe.seed, options.bias);
  GateConfig config = module.config();
  config.window = options.window;
  config.n_sink = options.n_sink;
  config.threshold = options.threshold;
  nlohmann::json facts = {{"status", "done"}, {"parameters", module.parameters().n_elements()}};
  for (const GateStage& stage : options.stages) {
    nlohmann::json of_stage = run_stage(training, base, module, stage);
    if (of_stage["status"] == "cancelled") return of_stage;
    module.save(training.output / stage.name, config, stage.description);
    of_stage["folder"] = (training.output / stage.name).string();
    facts["stages"].push_back(std::move(of_stage));
  }
  return facts;
}

}  // namespace kvscope::engine
