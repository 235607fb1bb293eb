#pragma once
// Marking KV heads with the mouse on a map of layers and heads: a rectangle dragged from cell to cell.

#include <imgui.h>

#include <functional>
#include <optional>

#include "views/figure/figure.h"
#include "views/figure/head_set.h"

namespace kvscope::views {

/// One object a panel: it remembers the drag.
class HeadBrush {
 public:
  enum class Plain : std::uint8_t {
    marks,  // without a key a drag marks its rectangle instead of what was marked, and a click only says where it was
    paints  // without a key a click or a drag gives all its heads what its first head did not have
  };
  using HeadAt = std::function<KvHead(int row, int column)>;

  /// Call it every frame. Shift adds, Ctrl and Alt take away, click and drag alike. `heads` changes while the mouse moves;
  /// `hovered`: nothing else lies under it. Returns the head that was clicked, of `marks` without a key.
  std::optional<KvHead> handle(HeadSet& heads, const Panel& panel, ImVec2 origin, const HeadAt& head_at, bool hovered,
                               Plain plain);
  bool is_dragging() const { return down_ && (moved_ || acts_at_once_); }

 private:
  enum class Does : std::uint8_t { replace, add, remove };
  void begin(const HeadSet& heads, std::pair<int, int> cell, KvHead head, Plain plain);
  void apply(HeadSet& heads, const HeadAt& head_at, std::pair<int, int> to) const;

  bool down_ = false, moved_ = false, acts_at_once_ = false;
  Does does_ = Does::replace;
  std::pair<int, int> from_;  // row, column
  HeadSet before_;
};

}  // namespace kvscope::views
