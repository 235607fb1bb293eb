#pragma once
// The list of runs as views and panels have it: those with a row, what each is called, and what came of it.

#include <cstdint>

#include "app/session/revision.h"
#include "app/session/run_summaries.h"
#include "app/session/runs.h"
#include "views/selection/listed_runs.h"

namespace kvscope::app {

class RunList {
 public:
  RunList(const Runs& runs, RunSummaries& summaries, const Revision& revision);
  /// As it is now; titles are made anew when there is something new. show and choose are for the window to fill in.
  const views::ListedRuns& now();
  /// What a run is called; only of one with a row.
  views::ListedRun of(int id);

 private:
  const Runs& runs_;
  const Revision& revision_;
  std::uint64_t known_ = 0;
  views::ListedRuns list_;
};

}  // namespace kvscope::app
