#include "engine/jobs/train/phase.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>

#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/seconds_since.h"
#include "engine/jobs/tasks/reasoning_sequences.h"
#include "engine/jobs/train/heldout_probe.h"
#include "engine/jobs/train/training_checkpoint.h"

namespace kvscope::engine {

at::Tensor ids_tensor(const Batch& batch, at::Device device) {
  const at::Tensor ids =
      at::from_blob(const_cast<std::int32_t*>(batch.ids.data()), {batch.size, batch.row_tokens}, at::kInt);
  return ids.to(device).to(at::kLong);
}

at::Tensor roles_tensor(const Batch& batch, at::Device device) {
  const at::Tensor roles =
      at::from_blob(const_cast<std::uint8_t*>(batch.roles.data()), {batch.size, batch.row_tokens}, at::kByte);
  return roles.to(device).to(at::kLong);
}

std::unique_ptr<SequenceSource> Training::make_source(std::span<const std::int32_t> text, std::uint64_t seed) const {
  if (recipe.palindrome) return std::make_unique<PalindromeSequences>(corpus.tokenizer(), *recipe.palindrome, seed);
  if (recipe.text) return std::make_unique<TextSequences>(text, corpus.tokenizer(), *recipe.text, seed);
  if (recipe.repeat) {
    const auto chat = ChatTemplate::find(corpus.tokenizer_file().parent_path());
    return std::make_unique<RepeatSequences>(text, corpus.tokenizer(), chat ? &*chat : nullptr, *recipe.repeat, seed);
  }
  const double share = recipe.data.reasoning_share;
  std::unique_ptr<SequenceSource> tasks, reasoning;
  if (share < 1) tasks = std::make_unique<SequenceGenerator>(text, corpus.words(), recipe.data, seed);
  if (share > 0) reasoning = std::make_unique<ReasoningSequences>(corpus.tokenizer(), recipe.length(), seed);
  if (share == 0) return tasks;
  if (share == 1) return reasoning;
  return mixed(std::move(reasoning), std::move(tasks), share, seed);
}

void Training::seed_draws(std::uint64_t salt, std::int64_t step) const {
  const auto of_member = split_mix(recipe.seed ^ salt) + (static_cast<std::uint64_t>(member) << 32);
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.mutex());
  generator.set_current_seed(of_member + static_cast<std::uint64_t>(step));
}

nlohmann::json dense_accuracy(const DecoderModule& model, const SequenceSource& heldout, int n_sequences) {
  const c10::NoGradGuard no_grad;
  constexpr int kAtOnce = 8;
  std::map<TaskKind, std::pair<int, int>> counts;  // right, asked
  for (int first = 0; first < n_sequences; first += kAtOnce) {
    const Batch batch = make_batch(heldout, static_cast<std::uint64_t>(first), std::min(kAtOnce, n_sequences - first));
    const at::Tensor ids = ids_tensor(batch, model.embedding().device());
    const at::Tensor hidden = model.hidden(ids.narrow(1, 0, ids.size(1) - 1));
    const at::Tensor answer = at::matmul(hidden, model.output().t()).argmax(-1);  // [B, T], of position t + 1
    const at::Tensor right = (answer == ids.narrow(1, 1, ids.size(1) - 1)).cpu();
    for (int i = 0; i < batch.size; ++i) {
      for (const auto& span : batch.spans[i]) {
        auto& [n_right, n_asked] = counts[span.kind];
        n_right += right[i].narrow(0, span.begin - 1, span.end - span.begin).all().item<bool>();
        ++n_asked;
      }
    }
  }
  nlohmann::json result;
  for (const auto& [kind, count] : counts) {
    result[std::string(to_string(kind))] = {{"right", count.first}, {"asked", count.second}};
  }
  return result;
}

namespace {

/// Throws if one of them is no finite number: what comes after would be worth nothing.
void check_finite(const std::vector<double>& losses, const PhaseSteps& steps, std::int64_t step) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (std::isfinite(losses[i])) continue;
    throw Error(
        {.where = steps.name + ", step " + std::to_string(step),
         .found = steps.loss_columns[i] + " is not a number",
         .expected = "a finite loss",
         .hint = "use a smaller learning_rate or a longer warm_up; --resume continues from the last checkpoint"});
  }
}

void check_batch(const Training& training, int batch) {
  if (batch % training.n_members() == 0) return;
  throw Error({.code = ExitCode::usage,
               .where = "--device",
               .found = std::to_string(training.n_members()) + " devices for a batch of " + std::to_string(batch),
               .expected = "a number of devices that divides the batch"});
}

/// {"step": 50, "tokens": ...}
nlohmann::json named(const std::vector<std::string>& columns, const std::vector<double>& row) {
  nlohmann::json object;
  for (std::size_t i = 0; i < columns.size(); ++i) object[columns[i]] = row[i];
  return object;
}

/// The rows of `point` from `first` on.
void tell_curve(const Training& training, const std::string& name, const std::vector<std::string>& columns,
                const TrainingPoint& point, std::size_t first) {
  if (!training.leads() || !training.context.curve) return;
  const std::vector rows(point.curve.begin() + static_cast<std::ptrdiff_t>(first), point.curve.end());
  training.context.curve({{"name", name}, {"columns", columns}, {"first", first}, {"rows", rows}});
}

}  // namespace

nlohmann::json run_steps(const Training& training, const PhaseOptions& options, const SequenceSource& sequences,
                         AdamW& optimizer, const PhaseSteps& steps) {
  std::vector<std::string> columns = {"step", "tokens", "learning_rate"};
  columns.insert(columns.end(), steps.loss_columns.begin(), steps.loss_columns.end());
  columns.insert(columns.end(), {"tokens_per_s", "seconds"});
  const TrainingCheckpoint checkpoint(training.output / (steps.name + kCheckpointSuffix),
                                      training.identity + ", " + steps.name, optimizer);
  TrainingPoint at = training.resumed ? checkpoint.load() : TrainingPoint{};
  check_batch(training, options.batch);
  tell_curve(training, steps.name, columns, at, 0);
  const HeldoutProbe probe(training, steps);
  if (at.step == 0) probe.tell(0, /*at_end=*/false);
  DataLoader loader(sequences, options.batch, training.loader_threads, at.step, training.member, training.n_members());
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [start, before = at.seconds] { return before + seconds_since(start); };
  const double step_tokens = static_cast<double>(options.batch) * sequences.length();
  std::int64_t step = at.step;
  double progress = phase_progress(options.length, step, at.seconds), saved_at = at.seconds;
  while (progress < 1) {
    if (training.agreed(training.cancelled()) != 0) return {{"status", "cancelled"}};
    const double rate = learning_rate(options.optimizer, step, progress);
    steps.add_gradients(loader.next(), step);
    if (training.team != nullptr) {
      for (const at::Tensor& sums : optimizer.gradient_sums()) training.team->average(training.member, sums);
    }
    optimizer.step(rate);
    ++step;
    progress = training.agreed(phase_progress(options.length, step, elapsed()));
    probe.tell(step, progress >= 1);
    if (step % options.log_every == 0 || progress >= 1 || step == 1) {
      std::vector<double> losses = steps.report(step - at.step);
      if (training.team != nullptr) losses = training.team->mean(training.member, losses);
      const double seconds = elapsed();  // the report has waited for the device, so the clock is right
      const double speed = static_cast<double>(step - at.step) * step_tokens / (seconds - at.seconds);
      std::vector<double> values = {static_cast<double>(step), step_tokens * static_cast<double>(step), rate};
      values.insert(values.end(), losses.begin(), losses.end());
      values.insert(values.end(), {speed, seconds});
      check_finite(losses, steps, step);
      at.step = step, at.seconds = seconds;
      at.curve.push_back(values);
      if (!training.leads()) continue;
      tell_curve(training, steps.name, columns, at, at.curve.size() - 1);
      char text[160];
      std::snprintf(text, sizeof text, "%s step %lld  %s  %.2f M tokens/s  %.0f s", steps.name.c_str(),
                    static_cast<long long>(step), steps.describe(losses).c_str(), speed / 1e6, seconds);
      if (training.context.row) training.context.row(text, named(columns, at.curve.back()));
      if (progress >= 1 || seconds - saved_at >= training.checkpoint_seconds) {
        checkpoint.save(at);
        saved_at = seconds;
      }
    }
    if (training.leads() && training.context.progress) training.context.progress(steps.name.c_str(), progress, 1, "");
  }
  const nlohmann::json last = at.curve.empty() ? nlohmann::json() : named(columns, at.curve.back());
  return {{"status", "done"}, {"steps", step}, {"seconds", elapsed()}, {"last", last}};
}

}  // namespace kvscope::engine
