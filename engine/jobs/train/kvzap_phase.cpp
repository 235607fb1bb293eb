// KVzap's gates: a regression of log KVzip+ from the attention's input, over a frozen base.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "engine/core/support/shuffle.h"
#include "engine/jobs/train/checkpoint_writer.h"
#include "engine/jobs/train/heldout_probe.h"
#include "engine/jobs/train/kvzap_lesson.h"
#include "engine/jobs/train/phase.h"

namespace kvscope::engine {
namespace {

/// int64 [at most n]: positions of the first copy that a step learns from, without repetition, in random order.
at::Tensor drawn_positions(const Training& training, std::int64_t step, const RepeatSpan& span) {
  Random random(training.recipe.seed ^ kGateSalt, static_cast<std::uint64_t>(step) + 1);
  std::vector<std::int64_t> all(static_cast<std::size_t>(span.n));
  std::iota(all.begin(), all.end(), 0);
  shuffle(random, all);
  all.resize(std::min(all.size(), static_cast<std::size_t>(training.recipe.kvzap->positions)));
  return at::tensor(all, at::kLong).to(training.device);
}

at::Tensor all_positions(const Training& training, const RepeatSpan& span) {
  return at::arange(span.n, at::TensorOptions(training.device).dtype(at::kLong));
}

/// Networks begin at the mean of the target over a first text: without this, most steps would only move the bias of the output there.
void begin_at_mean(GateModule& gate, const Training& training, const DecoderModule& base,
                   const SequenceSource& sequences, const RepeatSpan& span) {
  const c10::NoGradGuard no_grad;
  gate.initialise(training.recipe.seed, /*bias=*/0);
  const at::Tensor ids = ids_tensor(make_batch(sequences, 0, 1), training.device);
  const KvzapLesson lesson = kvzap_lesson(base, gate, ids, span, all_positions(training, span));
  gate.parameters().master("b2").copy_(lesson.target.mean({1, 3}));
  gate.parameters().publish();
}

KvzapFit heldout_fit(const Training& training, const DecoderModule& base, const GateModule& gate,
                     const RepeatSpan& span) {
  const c10::NoGradGuard no_grad;
  const auto heldout = training.heldout();
  KvzapFit fit;
  for (int i = 0; i < training.recipe.kvzap->heldout_sequences; ++i) {
    const at::Tensor ids = ids_tensor(make_batch(*heldout, static_cast<std::uint64_t>(i), 1), training.device);
    fit.add(kvzap_lesson(base, gate, ids, span, all_positions(training, span)));
  }
  return fit;
}

/// [L, n_kv_heads] -> {"mean", "by_layer"}
nlohmann::json summary(const at::Tensor& by_head) {
  const at::Tensor by_layer = by_head.mean(1);
  const double* values = by_layer.const_data_ptr<double>();
  return {{"mean", by_head.mean().item<double>()},
          {"by_layer", std::vector<double>(values, values + by_layer.numel())}};
}

std::string describe_regression(const std::vector<double>& losses) {
  char text[48];
  std::snprintf(text, sizeof text, "squared error %.4f", losses[0]);
  return text;
}

/// Into a folder of the kind's name, which it returns.
std::filesystem::path save_regression(const Training& training, const GateModule& gate, const KvzapFit& fit,
                                      const std::string& name) {
  const KvzapOptions& options = *training.recipe.kvzap;
  GateConfig config = gate.config();
  config.window = options.window;
  config.n_sink = options.n_sink;
  config.threshold = options.threshold ? *options.threshold : fit.threshold_of(options.density);
  if (!options.threshold) tell_probe_threshold(training, name, keeps_from(config));
  const std::filesystem::path folder = training.output / name;
  gate.save(folder, config, "KVzap, log KVzip+; " + training.recipe.name);
  return folder;
}

}  // namespace

nlohmann::json run_kvzap_phase(const Training& training) {
  const Recipe& recipe = training.recipe;
  const KvzapOptions& options = *recipe.kvzap;
  const at::ScalarType type = training.device.is_cuda() ? at::kBFloat16 : at::kFloat;
  DecoderModule base(recipe.model, recipe.length(), training.device, type, /*trained=*/false);
  read_model(training.base, base);
  const auto sequences = training.sequences(recipe.seed ^ kGateSalt);
  const RepeatSpan span = dynamic_cast<const RepeatSequences&>(*sequences).span();  // Recipe::parse asks for this kind
  GateModule gate(options.kind(), options.hidden, recipe.model, training.device);
  begin_at_mean(gate, training, base, *sequences, span);
  AdamW optimizer(gate.parameters(), options.optimizer);
  const std::string name = options.hidden > 0 ? "kvzap-mlp" : "kvzap-linear";
  at::Tensor loss;
  const auto scores = [&](const at::Tensor& ids) {
    const AsSaved saved({&gate.parameters()});
    return probe_scores(base, gate, ids);
  };
  GateConfig kept = gate.config();
  kept.threshold = options.threshold.value_or(0);
  nlohmann::json facts = run_steps(training, options, *sequences, optimizer,
                                   {.name = name,
                                    .loss_columns = {"loss_all"},
                                    .add_gradients =
                                        [&](const Batch& batch, std::int64_t step) {
                                          const KvzapLesson lesson =
                                              kvzap_lesson(base, gate, ids_tensor(batch, training.device), span,
                                                           drawn_positions(training, step, span));
                                          const at::Tensor of_step = at::mse_loss(lesson.predicted, lesson.target);
                                          of_step.backward();
                                          loss = of_step.detach();
                                        },
                                    .report = [&](std::int64_t) { return std::vector<double>{loss.item<double>()}; },
                                    .describe = describe_regression,
                                    .probe = scores,
                                    .keeps_from = options.threshold ? std::optional(keeps_from(kept)) : std::nullopt});
  if (facts["status"] == "cancelled" || !training.leads()) return facts;
  const KvzapFit fit = heldout_fit(training, base, gate, span);
  facts.erase("last");
  facts["folder"] = save_regression(training, gate, fit, name).string();
  facts["parameters"] = gate.parameters().n_elements();
  facts["heldout_loss"] = summary(fit.error());
  facts["heldout_r2"] = summary(fit.explained());
  return facts;
}

}  // namespace kvscope::engine
