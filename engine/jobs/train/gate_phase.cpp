// Gates through soft attention over a frozen base, stage after stage; each stage's gate is saved.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstdio>

#include "engine/core/support/hash.h"
#include "engine/jobs/train/checkpoint_writer.h"
#include "engine/jobs/train/gate_method.h"
#include "engine/jobs/train/gate_module.h"
#include "engine/jobs/train/gated_attention.h"
#include "engine/jobs/train/phase.h"

namespace kvscope::engine {
namespace {

/// A gate's options with the method's own in place of what the recipe left open.
struct GatePlan {
  const GateMethod& method;
  const GateOptions& options;
  GateConfig config;  // of the gate's file
  int hidden;
  double bias;

  GatePlan(const Recipe& recipe)
      : method(find_gate_method(recipe.gate->method, recipe.name)),
        options(*recipe.gate),
        config(default_gate_config(method.kind)),
        hidden(options.hidden.value_or(method.hidden)),
        bias(options.bias.value_or(method.bias)) {
    config.window = options.window.value_or(config.window);
    config.n_sink = options.n_sink.value_or(config.n_sink);
    config.threshold = options.threshold.value_or(config.threshold);
  }
  /// "wg-kv-0.01": of a stage's folder and curve.
  std::string name_of(const GateStage& stage) const {
    char text[32] = "";
    if (stage.weight > 0) std::snprintf(text, sizeof text, "-%g", stage.weight);
    return std::string(method.name) + text;
  }
};

constexpr double kSmallestGate = 1e-6;  // its logarithm is finite, and says "closed" in every float

/// What a batch cost, still on the device: reading it would stall the host.
struct StepLosses {
  at::Tensor all, kept_output;  // the loss, its part that keeps the model's output
  at::Tensor mean, open;        // of the gates: mean, share at the threshold or above
};

/// Adds the gradients of one batch.
StepLosses accumulate(const DecoderModule& base, const GateModule& module, const GatePlan& plan, const Batch& batch,
                      const GateStep& step) {
  const GateMethod& method = plan.method;
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
    if (plan.config.n_sink > 0) {
      const auto n_sink = std::min<std::int64_t>(plan.config.n_sink, gate.size(2));
      gate = at::cat({at::ones_like(gate.narrow(2, 0, n_sink)), gate.narrow(2, n_sink, gate.size(2) - n_sink)}, 2);
    }
    gates.push_back(gate);
    const at::Tensor attention = gated_attention(heads.q, heads.k, heads.v, (gate + kSmallestGate).log(),
                                                 plan.config.window, base.config().attention_scale(layer));
    x = base.finish(layer, x, attention);
  }
  const at::Tensor all_gates = at::stack(gates), student = base.final_norm(x), next = rows.narrow(1, 1, ids.size(1));
  const auto [loss, kept_output] =
      method.loss({.base = base, .next = next, .student = student, .teacher = teacher, .gates = all_gates}, step);
  loss.backward();
  const at::Tensor seen = all_gates.detach();
  const double threshold = module.config().negated ? 0.5 : plan.config.threshold;  // a mark's gate is hard at 1/2
  return {loss.detach(), kept_output.detach(), seen.mean(), (seen >= threshold).to(at::kFloat).mean()};
}

nlohmann::json run_stage(const Training& training, const DecoderModule& base, const GatePlan& plan, GateModule& module,
                         const GateStage& stage) {
  PhaseOptions phase = plan.options;
  phase.length = stage.length;
  AdamW optimizer(module.parameters(), phase.optimizer);
  StepLosses losses;
  return run_steps(
      training, phase, *training.sequences(training.recipe.seed ^ kGateSalt), optimizer,
      {.name = plan.name_of(stage),
       .loss_columns = {"loss_all", "loss_output", "gate_mean", "gate_open"},
       .add_gradients =
           [&](const Batch& batch, std::int64_t step) {
             // What a step draws follows from its number: a training that goes on draws the same.
             at::manual_seed(split_mix(training.recipe.seed ^ kGateSalt) + static_cast<std::uint64_t>(step));
             const double progress = phase_progress(stage.length, step, 0);
             losses = accumulate(base, module, plan, batch, {.weight = stage.weight, .progress = progress});
           },
       .report =
           [&](std::int64_t) {
             const double all = losses.all.item<double>(), output = losses.kept_output.item<double>(),
                          mean = losses.mean.item<double>(), open = losses.open.item<double>();
             char text[112];
             std::snprintf(text, sizeof text, "loss %.4f  output %.4f  gates mean %.3f  open %.3f", all, output, mean,
                           open);
             return LossReport{{all, output, mean, open}, text};
           }});
}

}  // namespace

nlohmann::json run_gate_phase(const Training& training) {
  const Recipe& recipe = training.recipe;
  const GatePlan plan(recipe);
  const at::ScalarType type = training.device.is_cuda() ? at::kBFloat16 : at::kFloat;
  DecoderModule base(recipe.model, recipe.length(), training.device, type, /*trained=*/false);
  read_model(training.base, base);
  GateModule module(plan.method.kind, plan.hidden, recipe.model, training.device);
  module.initialise(recipe.seed, plan.bias);
  GateConfig config = plan.config;
  config.n_hidden = module.config().n_hidden;
  config.activation = module.config().activation;
  nlohmann::json facts = {{"status", "done"}, {"parameters", module.parameters().n_elements()}};
  for (const GateStage& stage : plan.options.stages) {
    nlohmann::json of_stage = run_stage(training, base, plan, module, stage);
    if (of_stage["status"] == "cancelled") return of_stage;
    const std::filesystem::path folder = training.output / plan.name_of(stage);
    module.save(folder, config, std::string(plan.method.source) + "; " + recipe.name + ", " + plan.name_of(stage));
    of_stage["folder"] = folder.string();
    facts["stages"].push_back(std::move(of_stage));
  }
  return facts;
}

}  // namespace kvscope::engine
