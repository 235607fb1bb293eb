#pragma once
// "Worst misses": the evictions of run A that cost most, each a click to its token, head and query.

#include <vector>

#include "engine/core/study/heads/span_loss.h"
#include "views/frame/view_services.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

class MissList {
 public:
  explicit MissList(const ViewServices& services) : services_(services) {}
  /// misses: worst_misses() of A; null: they are being judged. Items lost.misses (title or note), lost.miss.0 ...
  void draw(ViewContext& context, const std::vector<Eviction>* misses, ImVec2 room);

 private:
  void draw_row(ViewContext& context, const Eviction& miss, int row);

  ViewServices services_;
};

}  // namespace kvscope::views
