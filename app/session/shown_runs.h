#pragma once
// The two runs on show: A, and beside it B or the preview of A.

#include "app/session/preview.h"
#include "app/session/run_list.h"
#include "views/frame/view_state.h"

namespace kvscope::app {

class ShownRuns {
 public:
  void update(const RunList& runs, const Preview& preview);
  /// Null if nothing is on show there. Valid until the next update.
  const views::ShownRun* a() const { return a_.run ? &a_ : nullptr; }
  const views::ShownRun* b() const { return b_.run ? &b_ : nullptr; }
  /// First position at which the tokens of A and B differ; -1 if they do not.
  int divergence() const;

 private:
  views::ShownRun a_, b_;
};

/// Those of the chosen runs that are on the list and have A's layers and heads.
std::vector<views::ShownRun> runs_of_set(const RunList& runs, const views::Selection& selection);

}  // namespace kvscope::app
