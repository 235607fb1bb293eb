#pragma once
// What the list of runs says of each in a line: made in the background, once a run has ended.

#include <limits>
#include <map>
#include <memory>

#include "app/session/revision.h"
#include "app/session/run_list.h"
#include "app/session/worker.h"

namespace kvscope::app {

struct RunSummary {
  double nll = std::numeric_limits<double>::quiet_NaN();          // of the answer's tokens, mean, nats
  double mean_recall = std::numeric_limits<double>::quiet_NaN();  // of the run's oracle, mean over heads and queries
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
  Worker worker_;               // of its own: minutes of counting must not hold up a file
};

}  // namespace kvscope::app
