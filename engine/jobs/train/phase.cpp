#include "engine/jobs/train/phase.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>

#include "engine/core/support/error.h"

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
  if (recipe.text) return std::make_unique<TextSequences>(text, corpus.tokenizer(), *recipe.text, seed);
  return std::make_unique<SequenceGenerator>(text, corpus.words(), recipe.data, seed);
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

nlohmann::json run_steps(const Training& training, const PhaseOptions& options, const SequenceSource& sequences,
                         AdamW& optimizer, const PhaseSteps& steps) {
  std::vector<std::string> columns = {"step", "tokens", "learning_rate"};
  columns.insert(columns.end(), steps.loss_columns.begin(), steps.loss_columns.end());
  columns.insert(columns.end(), {"tokens_per_s", "seconds"});
  const std::filesystem::path path = training.output / (steps.name + "_loss.csv");
  std::ofstream curve(path);
  for (const std::string& column : columns) curve << (&column == columns.data() ? "" : ",") << column;
  const auto cannot_write = [&] {
    throw Error({.code = ExitCode::resource, .file = path.string(), .found = "the file cannot be written"});
  };
  if (!(curve << std::endl)) cannot_write();
  DataLoader loader(sequences, options.batch, training.loader_threads);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const double step_tokens = static_cast<double>(options.batch) * sequences.length();
  std::int64_t step = 0, logged_step = 0;
  double progress = phase_progress(options.length, 0, 0), logged_at = 0;
  nlohmann::json last;
  while (progress < 1) {
    if (training.cancelled()) return {{"status", "cancelled"}};
    const double rate = learning_rate(options.optimizer, step, progress);
    steps.add_gradients(loader.next());
    optimizer.step(rate);
    ++step;
    progress = phase_progress(options.length, step, elapsed());
    if (step % options.log_every == 0 || progress >= 1 || step == 1) {
      const LossReport losses = steps.report(step - logged_step);
      const double seconds = elapsed();  // the report has waited for the device, so the clock is right
      const double speed = static_cast<double>(step - logged_step) * step_tokens / (seconds - logged_at);
      logged_at = seconds;
      logged_step = step;
      std::vector<double> values = {static_cast<double>(step), step_tokens * static_cast<double>(step), rate};
      values.insert(values.end(), losses.values.begin(), losses.values.end());
      values.insert(values.end(), {speed, seconds});
      char text[160];
      for (std::size_t i = 0; i < values.size(); ++i) {
        last[columns[i]] = values[i];
        std::snprintf(text, sizeof text, "%s%.7g", i == 0 ? "" : ",", values[i]);
        curve << text;
      }
      if (!(curve << std::endl)) cannot_write();  // out as soon as it is known
      std::snprintf(text, sizeof text, "%s step %lld  %s  %.2f M tokens/s  %.0f s", steps.name.c_str(),
                    static_cast<long long>(step), losses.text.c_str(), speed / 1e6, seconds);
      if (training.context.row) training.context.row(text, last);
    }
    if (training.context.progress) training.context.progress(steps.name.c_str(), progress, 1, "");
  }
  return {{"status", "done"}, {"steps", step}, {"seconds", elapsed()}, {"last", last}};
}

}  // namespace kvscope::engine
