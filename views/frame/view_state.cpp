#include "views/frame/view_state.h"

#include <algorithm>

namespace kvscope::views {

Cursor cursor(const Selection& selection, const RunRecord& run) {
  const std::int32_t last = run.n_tokens() - 1;
  return {.layer = std::clamp(selection.layer, 0, std::max(0, run.evict_at.n_layers() - 1)),
          .kv_head = std::clamp(selection.kv_head, 0, std::max(0, run.evict_at.n_kv_heads() - 1)),
          .token = std::clamp(selection.token, -1, last),
          .q = std::clamp(selection.q.value_or(last), 0, last)};
}

bool drawable(const ShownRun* shown) {
  return shown != nullptr && shown->run != nullptr && shown->run->n_tokens() > 0 && !shown->run->evict_at.empty();
}

std::int32_t ViewContext::q() const {
  return a == nullptr || a->run->n_tokens() == 0 ? -1 : cursor(*selection, *a->run).q;
}

Cursor ViewContext::cursor_in(const RunRecord& run) const {
  Selection at_a = *selection;
  at_a.q = q();
  return cursor(at_a, run);
}

}  // namespace kvscope::views
