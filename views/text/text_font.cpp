#include "views/text/text_font.h"

#include <algorithm>
#include <cstdio>

#include "engine/core/support/utf8.h"
#include "views/figure/token_text.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {
namespace {

constexpr float kNumberSize = 0.68f, kNumberPadding = 0.22f;  // of the font's size

/// Drawn by its number: nothing that one sees.
bool is_numbered(char32_t point, bool valid) { return !valid || (point != '\t' && is_invisible(point)); }

std::string number_of(char32_t point, bool valid, unsigned char byte) {
  char text[16];
  std::snprintf(text, sizeof text, valid ? "U+%04X" : "%02X", valid ? static_cast<unsigned>(point) : byte);
  return text;
}

}  // namespace

bool is_right_to_left(char32_t c) {
  return (c >= 0x590 && c <= 0x8ff) || c == 0x200f || (c >= 0xfb1d && c <= 0xfdff) || (c >= 0xfe70 && c <= 0xfefc) ||
         (c >= 0x10800 && c <= 0x10fff) || (c >= 0x1e800 && c <= 0x1efff);
}

bool TextFont::use(ImFont* font) {
  const float size = font_size(font);
  const bool changed = font != font_ || size != size_;
  font_ = font, size_ = size;
  height_ = size + services_.theme->px(3);
  return changed;
}

float TextFont::advance(char32_t point, bool valid) const {
  if (is_numbered(point, valid)) {
    // All digits are as wide: the width of a number is that of its length.
    const int digits = !valid ? 2 : point > 0xfffff ? 8 : point > 0xffff ? 7 : 6;
    const float digit = std::max(glyph_advance(font_, '0'), glyph_advance(font_, 'D'));
    return (static_cast<float>(digits) * digit + kNumberPadding * 2 * size_) * kNumberSize + services_.theme->px(2);
  }
  return glyph_advance(font_, static_cast<ImWchar>(point));
}

void TextFont::draw_number(ImDrawList& list, char32_t point, bool valid, unsigned char byte, ImVec2 at, float width,
                           Colour ink) const {
  const std::string number = number_of(point, valid, byte);
  const float size = size_ * kNumberSize, text = font_->CalcTextSizeA(size, 1e9f, 0, number.c_str()).x;
  const float gap = services_.theme->px(1);
  const ImU32 colour = to_imgui(with_alpha(ink, 170));
  list.AddRect({at.x + gap, at.y + gap}, {at.x + width - gap, at.y + height_ - 2 * gap}, colour,
               services_.theme->px(3));
  list.AddText(font_, size, {at.x + (width - text) / 2, at.y + (height_ - gap - size) / 2}, colour, number.c_str());
}

void TextFont::draw(ImDrawList& list, const TextLayout& layout, std::string_view text, std::size_t begin,
                    std::size_t end, ImVec2 at, Colour ink) const {
  const ImU32 colour = to_imgui(ink);
  const float top = at.y + (height_ - size_) / 2;
  float x = 0, run_x = 0;
  std::size_t run = begin;
  // Characters with a glyph go to ImGui together.
  const auto finish_run = [&](std::size_t to) {
    if (to > run) list.AddText(font_, size_, {at.x + run_x, top}, colour, text.data() + run, text.data() + to);
  };
  for (std::size_t i = begin; i < end;) {
    const Utf8Char c = decode_utf8(text, i);
    const char32_t point = c.valid ? c.code_point : 0xfffd;
    const float next = layout.behind(x, point, c.valid);
    const bool numbered = is_numbered(point, c.valid);
    if (numbered || point == '\t') {
      finish_run(i);
      if (numbered)
        draw_number(list, point, c.valid, static_cast<unsigned char>(text[i]), {at.x + x, at.y}, next - x, ink);
      run = i + c.length, run_x = next;
    }
    x = next;
    i += c.length;
  }
  finish_run(end);
}

}  // namespace kvscope::views
