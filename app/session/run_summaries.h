#pragma once
// What the list of runs says of each in a line: made in the background, once a run has ended.

#include <map>
#include <memory>
#include <optional>

#include "app/session/revision.h"
#include "app/session/runs.h"
#include "app/session/worker.h"
#include "engine/core/study/measure/eviction_headline.h"
#include "engine/core/study/measure/run_measures.h"

namespace kvscope::app {

struct RunSummary {
  double nll = 0;  // answer_nll(); NaN without any
  RunMeasures measures;
  std::optional<EvictionHeadline> headline;
};
RunSummary summarise(const RunRecord& run);

class RunSummaries {
 public:
  RunSummaries(Revision& revision, std::function<void()> wake) : revision_(revision), worker_(std::move(wake)) {}

  void poll();
  /// Null while it is not known; asks for it then, unless the run goes on.
  const RunSummary* of(const RunEntry& entry);

 private:
  struct Known {
    std::weak_ptr<const RunRecord> run;
    std::shared_ptr<const RunSummary> summary;  // null: under way
  };
  Revision& revision_;
  std::map<int, Known> known_;  // by the entry's id
  Worker worker_;               // another one: minutes of counting must not hold up a file
};

}  // namespace kvscope::app
