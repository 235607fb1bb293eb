#pragma once
// Where the interesting things of this frame are on the screen, by id, so that a script or a test can click
// "strip.token.17" or "map.cell.3.1" without knowing the layout. Ids are put together only on request.

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvscope::views {

struct ItemRect {
  float x = 0, y = 0, w = 0, h = 0;  // pixels of the window
  float centre_x() const { return x + w / 2; }
  float centre_y() const { return y + h / 2; }
};

class ItemRegistry {
 public:
  /// Forgets the items of the frame before. Call where ImGui::NewFrame() is called.
  void begin_frame() { items_.clear(), made_up_.clear(), texts_.clear(), scopes_ = {""}, scope_ = 0; }
  /// Ids that are added from here on begin with it, "layer_head_map.2:"; empty: with nothing more.
  void set_scope(const std::string& scope);
  /// An id that was put together, kept for the frame.
  void add(std::string id, ItemRect rect) { add(made_up_.emplace_back(std::move(id)).c_str(), rect); }
  /// `prefix` must outlive the frame: a string literal. The id is "prefix", "prefix.i" or "prefix.i.j".
  void add(const char* prefix, ItemRect rect) { items_.push_back({prefix, -1, -1, scope_, rect}); }
  void add(const char* prefix, int i, ItemRect rect) { items_.push_back({prefix, i, -1, scope_, rect}); }
  void add(const char* prefix, int i, int j, ItemRect rect) { items_.push_back({prefix, i, j, scope_, rect}); }

  /// What is written there, for tests to read.
  void add_text(std::string id, ItemRect rect, std::string text) {
    texts_.emplace_back(scopes_[scope_] + id, std::move(text));
    add(std::move(id), rect);
  }

  /// The text of an item that has one.
  std::optional<std::string> text(std::string_view id) const;
  /// The first item of that id in the frame drawn last; items that are scrolled away are not there.
  std::optional<ItemRect> find(std::string_view id) const;
  std::vector<std::string> ids() const;
  std::size_t size() const { return items_.size(); }

 private:
  struct Item {
    const char* prefix;
    int i, j;
    std::size_t scope;
    ItemRect rect;
    std::string id() const;
  };
  std::vector<Item> items_;
  std::vector<std::pair<std::string, std::string>> texts_;
  std::vector<std::string> scopes_ = {""};
  std::size_t scope_ = 0;
  std::deque<std::string> made_up_;  // which does not move what it holds
};

}  // namespace kvscope::views
