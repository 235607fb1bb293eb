#include "views/text/text_line.h"

#include <imgui.h>
#include <imgui_internal.h>  // an item that stands on the line's base as text does

#include "engine/core/support/utf8.h"
#include "views/text/text_font.h"
#include "views/text/text_layout.h"

namespace kvscope::views {
namespace {

constexpr float kHead = 0.55f;  // of the room, for the beginning of a line that keeps its end

float width_at(const TextFont& font, std::string_view text, std::size_t at) {
  const Utf8Char c = decode_utf8(text, at);
  return font.advance(c.valid ? c.code_point : 0xfffd, c.valid);
}

float width_of(const TextFont& font, std::string_view text) {
  float width = 0;
  for (std::size_t at = 0; at < text.size(); at += decode_utf8(text, at).length) width += width_at(font, text, at);
  return width;
}

// In one pass from either end: every row asks in every frame.
std::string_view head_of(const TextFont& font, std::string_view text, float room) {
  std::size_t at = 0;
  while (at < text.size() && (room -= width_at(font, text, at)) >= 0) at += decode_utf8(text, at).length;
  return text.substr(0, at);
}

std::string_view tail_of(const TextFont& font, std::string_view text, float room) {
  std::size_t tail = text.size();
  while (tail > 0) {
    std::size_t at = tail - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if ((room -= width_at(font, text, at)) < 0) break;
    tail = at;
  }
  return text.substr(tail);
}

}  // namespace

std::string fitted(const TextFont& font, std::string_view text, float room, Cut cut) {
  if (width_of(font, text) <= room) return std::string(text);
  const float mark = width_of(font, "...");
  const std::string head = std::string(head_of(font, text, (cut == Cut::middle ? kHead * room : room) - mark)) + "...";
  if (cut == Cut::end) return head;
  return head + std::string(tail_of(font, text, room - width_of(font, head)));
}

void text_line(const ViewServices& services, Colour ink, std::string_view text, float room, Cut cut) {
  TextFont font(services);
  font.use(ImGui::GetFont());
  const ImGuiWindow& window = *ImGui::GetCurrentWindow();
  ImVec2 at = window.DC.CursorPos;
  at.y += window.DC.CurrLineTextBaseOffset;
  const float height = ImGui::GetFontSize();
  ImVec2 size(room, height);
  // Lists have more lines than are in sight: the others cost nothing and ask for no characters.
  const bool in_sight = ImGui::IsRectVisible(at, {at.x + room, at.y + height});
  const std::string shown = in_sight ? fitted(font, text, room, cut) : std::string();
  if (in_sight) size.x = width_of(font, shown);
  ImGui::ItemSize(size, 0);
  if (!ImGui::ItemAdd({at, {at.x + size.x, at.y + size.y}}, 0)) return;
  font.draw(*ImGui::GetWindowDrawList(), TextLayout(font), shown, 0, shown.size(),
            {at.x, at.y - (font.line_height() - height) / 2}, ink);
}

}  // namespace kvscope::views
