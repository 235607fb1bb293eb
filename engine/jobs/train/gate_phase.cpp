// Gates through soft attention, stage after stage, over a frozen base or one that is trained along, by an adapter or whole; each
// stage is saved.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "engine/jobs/train/checkpoint_writer.h"
#include "engine/jobs/train/drawn_gates.h"
#include "engine/jobs/train/gate_method.h"
#include "engine/jobs/train/gate_module.h"
#include "engine/jobs/train/gate_thresholds.h"
#include "engine/jobs/train/gated_attention.h"
#include "engine/jobs/train/heldout_probe.h"
#include "engine/jobs/train/phase.h"

namespace kvscope::engine {
namespace {

constexpr int kUsualWindow = 512;  // of a training without a gate, where the recipe says none

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
        config(method.kind ? default_gate_config(*method.kind) : GateConfig{.window = kUsualWindow}),
        hidden(options.hidden.value_or(method.hidden)),
        bias(options.bias.value_or(method.bias)) {
    config.window = options.window.value_or(config.window);
    config.n_sink = options.n_sink.value_or(config.n_sink);
    config.threshold = options.threshold.value_or(config.threshold);
  }
  /// A gate of this much and more is open where it is hard; of a mark (DMS) one half, whatever the threshold of its logit.
  double open_from() const { return config.negated ? 0.5 : config.threshold; }
  /// Before the stage's end all is soft.
  double hardness(const GateStage& stage, std::int64_t step) const {
    const auto first = static_cast<std::int64_t>((1 - options.hard_share) * static_cast<double>(stage.length.steps));
    if (options.hard_share == 0 || step < first) return 0;
    return options.anneal == 0
               ? 1
               : std::min(1.0, static_cast<double>(step - first + 1) / static_cast<double>(options.anneal));
  }
  /// The paper's equations, and what it does not have.
  std::string source_of(const GateStage& stage) const {
    const std::string source(method.source);
    if (!method.prices_utility || stage.weight == 0) return source;
    return source + (stage.weight > 0 ? ", with a price on the mean utility" : " and 13");
  }
  /// "wg-kv-0.01", "sp-kv-joint-0.05", "sp-kv-k65-0.05": of a stage's folder and curve.
  std::string name_of(const GateStage& stage) const {
    char text[32] = "";
    if (stage.weight != 0)
      std::snprintf(text, sizeof text, stage.weight > 0 ? "-%g" : "-regulariser-%g", std::abs(stage.weight));
    return std::string(method.name) + (options.kernel > 1 ? "-k" + std::to_string(options.kernel) : "") +
           (options.trains_base() ? "-joint" : "") + text;
  }
};

/// What is trained: networks, an adapter or the base's weights, or networks and one of these. The student is the base
/// where there is no adapter.
struct TrainedGates {
  std::optional<GateModule> gate;
  std::optional<LoraAdapter> adapter;
  FlatParameters* base = nullptr;  // with all weights
  DecoderModule student;

  TrainedGates(DecoderModule& of, const GatePlan& plan, const Training& training, at::ScalarType type) : student(of) {
    const Recipe& recipe = training.recipe;
    if (plan.method.kind) {
      gate.emplace(*plan.method.kind, plan.hidden, recipe.model, training.device, plan.options.kernel);
      gate->initialise(recipe.seed, plan.bias);
    }
    if (plan.options.adapter) {
      adapter.emplace(*plan.options.adapter, recipe.model, training.device, type);
      adapter->initialise(recipe.seed ^ kAdapterSalt);
      student = of.adapted(*adapter);
    }
    if (plan.options.all_weights) base = &of.parameters();
  }
  /// The gate's parameters first, where there are any: freeze_first() stops them.
  AdamW optimizer(const GateOptions& options) {
    const double rate = options.optimizer.learning_rate;
    std::vector<std::pair<FlatParameters*, double>> groups;
    if (gate) groups.emplace_back(&gate->parameters(), 1);
    if (adapter) groups.emplace_back(&adapter->parameters(), gate ? options.adapter->learning_rate / rate : 1);
    if (base != nullptr) groups.emplace_back(base, gate ? options.all_weights->learning_rate / rate : 1);
    AdamW out(*groups.front().first, options.optimizer);
    for (std::size_t i = 1; i < groups.size(); ++i) out.add(*groups[i].first, groups[i].second);
    return out;
  }
  /// Of a gate that was saved now.
  at::Tensor scores(const at::Tensor& ids) {
    std::vector<FlatParameters*> trained = {&gate->parameters()};
    if (adapter) trained.push_back(&adapter->parameters());
    if (base != nullptr) trained.push_back(base);
    const AsSaved saved(trained);
    return probe_scores(student, *gate, ids);
  }
  std::int64_t n_parameters() const {
    return (gate ? gate->parameters().n_elements() : 0) + (adapter ? adapter->parameters().n_elements() : 0) +
           (base != nullptr ? base->n_elements() : 0);
  }
};

/// What gates are at this step. Without a network they are a fixed mask.
GateForm form_of(const GatePlan& plan, const GateStep& step) {
  return {.binary = !plan.method.kind || step.hard > 0,
          .sampled = plan.options.sampled,
          .least_probability = plan.options.least_probability,
          .hard = step.hard,
          .open_from = plan.open_from(),
          .n_sink = plan.config.n_sink};
}

/// What a batch cost, still on the device: reading it would stall the host.
struct StepLosses {
  at::Tensor all, kept_output;  // the loss, its part that keeps the model's output
  at::Tensor mean, open;        // of the gates: mean, share at the threshold or above
  at::Tensor open_by_head;      // [L, n_kv_heads] the same share
};

/// Of a batch's B * T tokens behind, those that a mean counts, and the share of each.
struct Shares {
  at::Tensor counted, share;  // [n] int64, [n] float32
};

/// What has no weight is left out: where answers alone count, most of the product with the vocabulary would be for nothing.
/// On the host, where the roles are: asking the device which have none would wait for it.
Shares shares_of(const Batch& batch, const LossWeights& weights, at::Device device) {
  std::vector<std::int64_t> counted;
  std::vector<float> weight;
  const int n_positions = batch.row_tokens - 1;
  for (int row = 0; row < batch.size; ++row) {
    for (int t = 0; t < n_positions; ++t) {
      const auto role = static_cast<TokenRole>(batch.roles[static_cast<std::size_t>(row * batch.row_tokens + t + 1)]);
      if (weights.of(role) == 0) continue;
      counted.push_back(std::int64_t{row} * n_positions + t);
      weight.push_back(weights.of(role));
    }
  }
  const at::Tensor all = at::tensor(weight);
  return {at::tensor(counted, at::kLong).to(device), (all / all.sum()).to(device)};
}

/// In place of what a network says, [B, n_kv_heads, T].
at::Tensor no_output(const DecoderModule::Heads& heads) {
  return at::zeros({heads.k.size(0), heads.k.size(2), heads.k.size(1)}, heads.k.options().dtype(at::kFloat));
}

/// Of one batch through the gates, with gradients.
struct GatedPass {
  at::Tensor loss, kept_output;
  at::Tensor gates;  // [global layers, B, n_kv_heads, T]
};

GatedPass pass(const DecoderModule& base, const TrainedGates& trained, const GatePlan& plan, const Batch& batch,
               const GateStep& step) {
  const GateMethod& method = plan.method;
  const at::Tensor rows = ids_tensor(batch, base.embedding().device()), ids = rows.narrow(1, 0, rows.size(1) - 1);
  at::Tensor x, teacher;
  {
    const c10::NoGradGuard no_grad;
    if (method.reads_teacher) teacher = base.hidden(ids);
  }
  x = base.embed(ids);
  const GateConfig network = trained.gate ? trained.gate->config() : plan.config;
  const std::vector<GateModule::Layer> networks =
      trained.gate ? trained.gate->layers() : std::vector<GateModule::Layer>();
  const GateForm form = form_of(plan, step);
  std::vector<at::Tensor> gates;
  for (int layer = 0; layer < base.config().n_layers; ++layer) {
    if (base.config().is_local(layer)) {  // its window is the model's own: nothing is decided there
      x = trained.student.finish(layer, x, trained.student.attend(layer, trained.student.project(layer, x)));
      continue;
    }
    const bool unrotated = trained.gate && trained.gate->reads_unrotated();
    const auto heads = unrotated ? trained.student.project_unrotated(layer, x) : trained.student.project(layer, x);
    const at::Tensor output =
        trained.gate ? trained.gate->output(networks[static_cast<std::size_t>(layer)], heads, x) : no_output(heads);
    gates.push_back(counted_gates(method.gates(output, network, step), form));
    const at::Tensor attention = gated_attention(heads.q, heads.k, heads.v, log_gates(gates.back(), form),
                                                 plan.config.window, base.config().attention_scale(layer));
    x = trained.student.finish(layer, x, attention);
  }
  const at::Tensor all_gates = at::stack(gates), student = trained.student.final_norm(x),
                   next = rows.narrow(1, 1, ids.size(1));
  const Shares shares = shares_of(batch, plan.options.weights, rows.device());
  const auto [loss, kept_output] = method.loss({.base = base,
                                                .next = next,
                                                .counted = shares.counted,
                                                .share = shares.share,
                                                .student = student,
                                                .teacher = teacher,
                                                .gates = all_gates},
                                               step);
  return {loss, kept_output, all_gates};
}

/// Adds the gradients of one batch.
StepLosses accumulate(const DecoderModule& base, const TrainedGates& trained, const GatePlan& plan, const Batch& batch,
                      const GateStep& step) {
  const auto [loss, kept_output, gates] = pass(base, trained, plan, batch, step);
  loss.backward();
  const at::Tensor seen = gates.detach();
  const at::Tensor by_head = (seen >= plan.open_from()).to(at::kFloat).mean({1, 3});
  return {loss.detach(), kept_output.detach(), seen.mean(), by_head.mean(), by_head};
}

/// Of the curve: what each head keeps as the training goes on (SP-KV Fig. 5), open_LAYER_HEAD. None where no gate is.
std::vector<std::string> loss_columns(const TrainedGates& trained, const ModelConfig& model) {
  std::vector<std::string> columns = {"loss_all", "loss_output", "gate_mean", "gate_open"};
  for (int layer = 0; layer < model.n_layers && trained.gate; ++layer) {
    if (model.is_local(layer)) continue;
    for (int head = 0; head < model.n_kv_heads; ++head)
      columns.push_back("open_" + std::to_string(layer) + "_" + std::to_string(head));
  }
  return columns;
}

std::vector<double> report_of(const StepLosses& losses, bool by_head) {
  std::vector<double> values = {losses.all.item<double>(), losses.kept_output.item<double>(),
                                losses.mean.item<double>(), losses.open.item<double>()};
  if (!by_head) return values;
  const at::Tensor shares = losses.open_by_head.to(at::kCPU, at::kFloat).flatten();
  values.insert(values.end(), shares.data_ptr<float>(), shares.data_ptr<float>() + shares.numel());
  return values;
}

std::string describe(const std::vector<double>& losses) {
  char text[112];
  std::snprintf(text, sizeof text, "loss %.4f  output %.4f  gates mean %.3f  open %.3f", losses[0], losses[1],
                losses[2], losses[3]);
  return text;
}

nlohmann::json run_stage(const Training& training, const DecoderModule& base, const GatePlan& plan,
                         TrainedGates& trained, const GateStage& stage) {
  PhaseOptions phase = plan.options;
  phase.length = stage.length;
  AdamW optimizer = trained.optimizer(plan.options);
  StepLosses losses;
  const auto scores = [&](const at::Tensor& ids) { return trained.scores(ids); };
  return run_steps(training, phase, *training.sequences(training.recipe.seed ^ kGateSalt), optimizer,
                   {.name = plan.name_of(stage),
                    .loss_columns = loss_columns(trained, training.recipe.model),
                    .add_gradients =
                        [&](const Batch& batch, std::int64_t step) {
                          // What a step draws follows from its number: a training that goes on draws the same.
                          training.seed_draws(kGateSalt, step);
                          const double progress = phase_progress(stage.length, step, 0);
                          const double hard = plan.hardness(stage, step);
                          if (hard > 0 && trained.gate) optimizer.freeze_first();
                          losses = accumulate(base, trained, plan, batch,
                                              {.weight = stage.weight, .progress = progress, .hard = hard});
                        },
                    .report = [&](std::int64_t) { return report_of(losses, trained.gate.has_value()); },
                    .describe = describe,
                    .probe = trained.gate ? scores : std::function<at::Tensor(const at::Tensor&)>(),
                    .keeps_from = keeps_from(plan.config)});
}

/// A curve of what the stage's gates cost on held-out text when they are hard, by threshold: NAME-thresholds.
void tell_thresholds(const Training& training, const DecoderModule& base, const GatePlan& plan,
                     const TrainedGates& trained, const GateStage& stage) {
  if (plan.options.thresholds.empty() || !training.context.curve) return;
  const c10::NoGradGuard no_grad;
  const auto heldout = training.heldout();
  const auto measure = [&](double threshold, int i) {
    GatePlan at = plan;
    at.config.threshold = threshold;
    const Batch batch = make_batch(*heldout, static_cast<std::uint64_t>(i), 1);
    const GatedPass hard = pass(base, trained, at, batch, {.weight = stage.weight, .progress = 1, .hard = 1});
    return ThresholdPoint{hard.kept_output.item<double>(), cache_size(hard.gates, plan.config.window)};
  };
  training.context.curve({{"name", plan.name_of(stage) + "-thresholds"},
                          {"columns", {"threshold", "loss_output", "cache_size"}},
                          {"first", 0},
                          {"rows", threshold_curve(plan.options.thresholds, plan.options.heldout_sequences, measure)}});
}

/// Into a folder of the stage's name, which it returns.
std::filesystem::path save(const Training& training, const GatePlan& plan, const TrainedGates& trained,
                           const GateStage& stage) {
  const std::filesystem::path folder = training.output / plan.name_of(stage);
  if (trained.gate) {
    GateConfig config = plan.config;
    config.n_hidden = trained.gate->config().n_hidden;
    config.kernel = trained.gate->config().kernel;
    config.delay = trained.gate->config().delay;
    config.activation = trained.gate->config().activation;
    trained.gate->save(folder, config,
                       plan.source_of(stage) + "; " + training.recipe.name + ", " + plan.name_of(stage));
  }
  if (trained.adapter) trained.adapter->save(folder, training.base.filename().string());
  if (trained.base != nullptr && training.base.empty()) {
    write_model(folder, trained.student, training.corpus.tokenizer_file());
  } else if (trained.base != nullptr) {
    write_model_like(training.base, folder, trained.student);
  }
  return folder;
}

}  // namespace

nlohmann::json run_gate_phase(const Training& training) {
  const Recipe& recipe = training.recipe;
  const GatePlan plan(recipe);
  const at::ScalarType type = training.device.is_cuda() ? at::kBFloat16 : at::kFloat;
  DecoderModule base(recipe.model, recipe.length(), training.device, type, plan.options.all_weights.has_value());
  if (training.base.empty()) {
    base.initialise(recipe.seed);
  } else {
    read_model(training.base, base);
  }
  TrainedGates trained(base, plan, training, type);
  nlohmann::json facts = {{"status", "done"}, {"parameters", trained.n_parameters()}};
  for (const GateStage& stage : plan.options.stages) {
    nlohmann::json of_stage = run_stage(training, base, plan, trained, stage);
    if (of_stage["status"] == "cancelled") return of_stage;
    if (training.leads()) tell_thresholds(training, base, plan, trained, stage);
    if (training.leads()) of_stage["folder"] = save(training, plan, trained, stage).string();
    facts["stages"].push_back(std::move(of_stage));
  }
  return facts;
}

}  // namespace kvscope::engine
