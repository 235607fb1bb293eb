#include "app/session/run_summaries.h"

#include <cmath>
#include <string>

#include "engine/core/study/retention_metrics.h"

namespace kvscope::app {

RunSummary summarise(const RunRecord& run) {
  RunSummary summary;
  double sum = 0;
  int n = 0;
  // A text that was only read has no answer: then it is the text's own.
  const bool answers = run.n_tokens() > run.prompt_len;
  for (std::size_t i = answers ? static_cast<std::size_t>(run.prompt_len) : 0; i < run.logprobs.size(); ++i) {
    if (std::isfinite(run.logprobs[i])) sum -= run.logprobs[i], ++n;
  }
  if (n > 0) summary.nll = sum / n;
  if (run.queries() > 0) summary.mean_recall = mean(head_metric(run, Metric::mean_recall, run.queries() - 1));
  return summary;
}

void RunSummaries::poll() {
  for (const auto& finish : worker_.take_finished()) finish();
}

const RunSummary* RunSummaries::of(const RunEntry& entry) {
  if (entry.run->status == RunStatus::running || entry.run->n_tokens() == 0) return nullptr;
  Known& known = known_[entry.id];
  if (known.run.lock() == entry.run) return known.summary.get();
  known = {entry.run, nullptr};
  worker_.post(
      [this, id = entry.id, run = entry.run]() -> Worker::Finish {
        auto summary = std::make_shared<const RunSummary>(summarise(*run));
        return [this, id, run, summary] {
          Known& asked = known_[id];
          if (asked.run.lock() == run) asked.summary = summary, revision_.rise();
        };
      },
      [](const std::string&) {});  // a run without these numbers has none in its line
  return nullptr;
}

}  // namespace kvscope::app
