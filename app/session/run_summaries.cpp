#include "app/session/run_summaries.h"

#include <string>

#include "engine/core/study/measure/compare_runs.h"

namespace kvscope::app {

RunSummary summarise(const RunRecord& run) {
  return {.nll = answer_nll(run), .measures = measure_run(run), .headline = eviction_headline(run)};
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
