#include "views/widgets/table_cells.h"

#include <imgui.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "views/widgets/chrome.h"

namespace kvscope::views {
namespace {

constexpr float kHead = 0.55f;  // of the room, for the beginning of a text that keeps its end

float width_of(std::string_view text) { return ImGui::CalcTextSize(text.data(), text.data() + text.size()).x; }

/// How much of the text a line has: ImGui would break "1.52" after its point.
std::size_t end_of_line(std::string_view text, float room) {
  std::size_t fits = 0;
  for (std::size_t at = 0; at < text.size();) {
    at = std::min(text.find(' ', at + 1), text.size());
    if (width_of(text.substr(0, at)) > room) break;
    fits = at;
  }
  if (fits > 0) return fits;
  const char* end =
      ImGui::GetFont()->CalcWordWrapPosition(ImGui::GetFontSize(), text.data(), text.data() + text.size(), room);
  return static_cast<std::size_t>(end - text.data());
}

}  // namespace

/// The longest beginning that fits.
static std::string head_of(std::string_view text, float room) {
  const char* end = text.data();
  ImGui::GetFont()->CalcTextSizeA(ImGui::GetFontSize(), std::max(room, 0.f), 0, text.data(), text.data() + text.size(),
                                  &end);
  return {text.data(), end};
}

std::string cut_to(const std::string& text, float room) {
  return width_of(text) <= room ? text : head_of(text, room - width_of("…")) + "…";
}

std::string cut_middle_to(const std::string& text, float room) {
  if (width_of(text) <= room) return text;
  const std::string head = head_of(text, kHead * room - width_of("…")) + "…";
  room -= width_of(head);
  std::size_t tail = 0;
  for (std::size_t at = text.size(); at > 0 && tail == 0;) {
    const std::size_t before = at;
    while (--at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) {
    }
    room -= width_of(std::string_view(text).substr(at, before - at));
    if (room < 0) tail = before;
  }
  return head + text.substr(tail);
}

std::vector<float> share_room(const std::vector<float>& needs, float room) {
  std::vector<std::size_t> narrow_first(needs.size());
  std::iota(narrow_first.begin(), narrow_first.end(), std::size_t{0});
  std::ranges::sort(narrow_first, {}, [&](std::size_t i) { return needs[i]; });
  std::vector<float> widths(needs.size());
  std::size_t left = needs.size();
  for (const std::size_t i : narrow_first) {
    widths[i] = std::min(needs[i], room / static_cast<float>(left--));
    room -= widths[i];
  }
  for (float& width : widths) width += room / static_cast<float>(widths.size());
  return widths;
}

void cut_text_in(const ViewServices& services, Colour colour, const std::string& text) {
  cut_text_in(services, colour, text, ImGui::GetContentRegionAvail().x);
}

void cut_text_in(const ViewServices& services, Colour colour, const std::string& text, float room) {
  const std::string fits = cut_to(text, room);
  text_in(colour, fits);
  if (fits != text) hint_of(services, text);
}

std::string in_lines(const std::string& text, float room, int n) {
  std::string lines;
  std::string_view left = text;
  for (int i = 0; i < n && !left.empty(); ++i) {
    std::size_t end = end_of_line(left, room);
    if (i + 1 == n || end == 0) end = left.size();
    if (i > 0) lines += '\n';
    lines += cut_to(std::string(left.substr(0, end)), room);
    left.remove_prefix(std::min(left.find_first_not_of(' ', end), left.size()));
  }
  return lines;
}

/// The first sentences, as many as fit whole; a first one that does not fit is cut.
static std::string sentences_in_lines(const std::string& text, float room, int n) {
  std::string shown = in_lines(text, room, n);
  for (std::size_t end = text.size(); shown.ends_with("…") && !text.ends_with("…");) {
    end = end == 0 ? std::string::npos : text.rfind(". ", end - 1);
    if (end == std::string::npos) return in_lines(text, room, n);
    shown = in_lines(text.substr(0, end + 1), room, n);
  }
  return shown;
}

void lines_of_text(const ViewServices& services, Colour colour, const std::string& text, int n) {
  const ImVec2 at = ImGui::GetCursorPos();
  const std::string shown = sentences_in_lines(text, ImGui::GetContentRegionAvail().x, n);
  text_in(colour, shown);
  if (shown.size() < text.size() || shown.ends_with("…")) hint_of(services, text);
  const float height = ImGui::GetTextLineHeight() * static_cast<float>(n);
  ImGui::SetCursorPos({at.x, at.y + height + ImGui::GetStyle().ItemSpacing.y});
}

}  // namespace kvscope::views
