#pragma once
// "Missing tokens": the evicted tokens that a query would give most attention, each a click to it.

#include <vector>

#include "engine/core/study/measure/unseen_attention.h"
#include "views/frame/view_services.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

class UnseenList {
 public:
  static constexpr int kMost = 50;

  explicit UnseenList(const ViewServices& services) : services_(services) {}
  /// tokens: most_missing() of `unseen`, which is of A. Items unseen.missing (title or note), unseen.token.0 ...
  void draw(ViewContext& context, const UnseenAttention& unseen, const std::vector<std::int32_t>& tokens, ImVec2 room);

 private:
  void draw_row(ViewContext& context, const UnseenAttention& unseen, std::int32_t token, int row);

  ViewServices services_;
};

}  // namespace kvscope::views
