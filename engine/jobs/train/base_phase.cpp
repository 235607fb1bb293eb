#include <ATen/ATen.h>

#include <cstdio>

#include "engine/jobs/train/checkpoint_writer.h"
#include "engine/jobs/train/optimizer.h"
#include "engine/jobs/train/phase.h"
#include "engine/jobs/train/weighted_cross_entropy.h"

namespace kvscope::engine {
namespace {

/// Losses of a step, still on the device: reading them would stall the host.
struct StepLosses {
  at::Tensor all;         // weighted mean
  at::Tensor nll, roles;  // [B * T]
  double mean_of(TokenRole role) const {
    const at::Tensor chosen = (roles == static_cast<std::int64_t>(role)).to(at::kFloat);
    return ((nll * chosen).sum() / chosen.sum().clamp_min(1)).item<double>();
  }
};

/// Adds the gradients of one batch, micro-batch by micro-batch.
StepLosses accumulate(const Qwen3Module& model, const Batch& batch, const BaseOptions& options, at::Device device) {
  const at::Tensor ids = ids_tensor(batch, device), roles = roles_tensor(batch, device);
  const auto n_positions = ids.size(1) - 1;
  const LossWeights& w = options.weights;
  const at::Tensor by_role = at::tensor({w.text, w.statement, w.answer}).to(device);
  const at::Tensor target_roles = roles.narrow(1, 1, n_positions).reshape({-1});
  const at::Tensor weight = by_role.index_select(0, target_roles);
  const at::Tensor share = weight / weight.sum();

  StepLosses losses{.all = at::zeros({}, share.options()), .roles = target_roles};
  std::vector<at::Tensor> nll;
  for (std::int64_t begin = 0; begin < batch.size; begin += options.micro_batch) {
    const at::Tensor rows = ids.narrow(0, begin, options.micro_batch);
    const at::Tensor hidden = model.hidden(rows.narrow(1, 0, n_positions));
    const auto loss =
        weighted_cross_entropy(hidden.flatten(0, 1), model.embedding(), rows.narrow(1, 1, n_positions).reshape({-1}),
                               share.narrow(0, begin * n_positions, options.micro_batch * n_positions));
    loss.loss.backward();
    losses.all += loss.loss.detach();
    nll.push_back(loss.nll);
  }
  losses.nll = at::cat(nll);
  return losses;
}

}  // namespace

nlohmann::json run_base_phase(const Training& training) {
  const Recipe& recipe = training.recipe;
  const BaseOptions& options = recipe.base;
  const SequenceGenerator sequences(training.corpus.training(), training.corpus.words(), recipe.data, recipe.seed);
  Qwen3Module model(recipe.model, training.device, training.device.is_cuda() ? at::kBFloat16 : at::kFloat);
  model.initialise(recipe.seed);
  AdamW optimizer(model.parameters(), options.optimizer);
  LossCurve curve(training.output / "base_loss.csv", {"step", "tokens", "learning_rate", "loss_all", "loss_answers",
                                                      "loss_text", "tokens_per_s", "seconds"});
  DataLoader loader(sequences, options.batch, training.loader_threads);

  const Stopwatch watch;
  const double step_tokens = static_cast<double>(options.batch) * recipe.data.length;
  std::int64_t step = 0;
  double progress = phase_progress(options.length, 0, 0);
  double logged_at = 0;
  std::int64_t logged_step = 0;
  nlohmann::json last;
  while (progress < 1) {
    if (training.cancelled()) return {{"status", "cancelled"}};
    const double rate = learning_rate(options.optimizer, step, progress);
    const StepLosses losses = accumulate(model, loader.next(), options, training.device);
    optimizer.step(rate);
    ++step;
    progress = phase_progress(options.length, step, watch.seconds());
    if (step % options.log_every == 0 || progress >= 1 || step == 1) {
      const double all = losses.all.item<double>();  // waits for the device, so the clock is right from here on
      const double seconds = watch.seconds();
      const double speed = static_cast<double>(step - logged_step) * step_tokens / (seconds - logged_at);
      const std::vector<double> values = {
          static_cast<double>(step),         step_tokens * static_cast<double>(step), rate,  all,
          losses.mean_of(TokenRole::answer), losses.mean_of(TokenRole::text),         speed, seconds};
      logged_at = seconds;
      logged_step = step;
      curve.add(values);
      for (std::size_t i = 0; i < values.size(); ++i) last[curve.columns()[i]] = values[i];
      char text[160];
      std::snprintf(text, sizeof text, "base step %lld  loss %.4f  answers %.4f  text %.3f  %.2f M tokens/s  %.0f s",
                    static_cast<long long>(step), all, values[4], values[5], speed / 1e6, seconds);
      if (training.context.row) training.context.row(text, last);
    }
    if (training.context.progress) training.context.progress("base", progress, 1, "");
  }
  write_model(training.output, model, training.corpus.tokenizer_file());
  const SequenceGenerator heldout(training.corpus.heldout(), training.corpus.words(), recipe.data,
                                  recipe.seed ^ kHeldoutSalt);
  return {{"status", "done"},
          {"steps", step},
          {"tokens", step_tokens * static_cast<double>(step)},
          {"seconds", watch.seconds()},
          {"parameters", model.parameters().n_elements()},
          {"last", last},
          {"heldout_teacher_forced", dense_accuracy(model, heldout, options.heldout_sequences)}};
}

}  // namespace kvscope::engine
