#include "views/selection/leave_text.h"

namespace kvscope::views {

void leave_text(Selection& selection, int n_common, bool same_prompt) {
  for (int* token : {&selection.token, &selection.hovered_token}) {
    if (*token >= n_common) *token = -1;
  }
  if (same_prompt) return;
  for (TokenSpan* span : {&selection.view, &selection.rows, &selection.brush, &selection.lifetimes.rows}) {
    if (span->end > n_common) *span = {};
  }
  if (selection.view.empty()) selection.at_edge = false;
  if (selection.q.value_or(-1) >= n_common) selection.q.reset();
  selection.play.on = false;
}

}  // namespace kvscope::views
