#pragma once
// Characters of an edited text in a font of ImGui: how wide they are and how they are drawn, also those
// that one does not see.

#include <imgui.h>

#include <string_view>

#include "views/frame/view_services.h"
#include "views/text/text_layout.h"

namespace kvscope::views {

class TextFont final : public Advances {
 public:
  explicit TextFont(const ViewServices& services) : services_(services) {}
  /// Before anything is measured. True: characters have other widths than they had.
  bool use(ImFont* font);
  float advance(char32_t point, bool valid) const override;
  float line_height() const { return height_; }
  /// text[begin, end) of one line from `at`, its top left. What has no width or no glyph of its own stands in a frame by
  /// its number.
  void draw(ImDrawList& list, const TextLayout& layout, std::string_view text, std::size_t begin, std::size_t end,
            ImVec2 at, Colour ink) const;

 private:
  void draw_number(ImDrawList& list, char32_t point, bool valid, unsigned char byte, ImVec2 at, float width,
                   Colour ink) const;

  const ViewServices& services_;
  ImFont* font_ = nullptr;
  float size_ = 0, height_ = 0;
};

/// A character of a script that is written from right to left. The window shows such text in the order in which it is
/// stored.
bool is_right_to_left(char32_t point);

}  // namespace kvscope::views
