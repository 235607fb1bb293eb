#include "views/widgets/chrome.h"

#include <imgui_internal.h>  // what the keyboard is at

#include <algorithm>

#include "views/figure/colormap.h"
#include "views/figure/figure_builder.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {

FontScope::FontScope(ImFont* font) : pushed_(font != nullptr) {
  if (pushed_) push_font(font);
}
FontScope::~FontScope() {
  if (pushed_) ImGui::PopFont();
}

void text_in(Colour colour, std::string_view text) {
  ImGui::PushStyleColor(ImGuiCol_Text, to_imgui(colour));
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopStyleColor();
}

void draw_text(ImFont* font, Colour colour, std::string_view text) {
  const FontScope scope(font);
  text_in(colour, text);
}

namespace {

/// Broken at spaces alone where a line is full: ImGui would break "5.32" after its point. A word wider than the room is left
/// to ImGui.
std::string broken_at_spaces(std::string_view text, float room) {
  std::string out;
  std::size_t line = 0;  // where it begins in `out`
  const auto width = [](const char* begin, const char* end) { return ImGui::CalcTextSize(begin, end).x; };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at + 1), text.size());
    const std::string_view word = text.substr(at, end - at);  // with the space before it
    const std::size_t before = out.size();
    out += word;
    if (word.front() == '\n') {
      line = before + 1;
    } else if (word.front() == ' ' && before > line && width(out.data() + line, out.data() + out.size()) > room) {
      out[before] = '\n';
      line = before + 1;
    }
    at = end;
  }
  return out;
}

}  // namespace

void wrapped_text_in(Colour colour, std::string_view text) {
  ImGui::PushTextWrapPos(0);
  text_in(colour, broken_at_spaces(text, ImGui::GetContentRegionAvail().x));
  ImGui::PopTextWrapPos();
}

float wrapped_height(std::string_view text) {
  const float room = ImGui::GetContentRegionAvail().x;
  const std::string broken = broken_at_spaces(text, room);
  return ImGui::CalcTextSize(broken.data(), broken.data() + broken.size(), false, room).y;
}

ItemRect last_item() { return item_rect(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()); }

ImVec2 hint_place(const ItemRect& item, const ItemRect& window, ImVec2 size, ImVec2 mouse, ImVec2 screen, float gap) {
  constexpr float kHighest = 12;  // of a control, in gaps
  const bool high = item.h > kHighest * gap;
  const float top = high ? mouse.y - 2 * gap : item.y, bottom = high ? mouse.y + 2 * gap : item.y + item.h;
  const auto inside = [](float at, float length, float room) { return std::max(0.f, std::min(at, room - length)); };
  const float right = window.x + window.w + gap;
  if (item.w > 0.7f * window.w && right + size.x <= screen.x) return {right, inside(top, size.y, screen.y)};
  const float left = inside(std::max(item.x, mouse.x - 8 * gap), size.x, screen.x);
  if (bottom + gap + size.y <= screen.y) return {left, bottom + gap};
  return {left, std::max(0.f, top - gap - size.y)};
}

void frame_focused_item() {
  const ImRect item(ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
#if IMGUI_VERSION_NUM >= 19140
  ImGui::RenderNavCursor(item, ImGui::GetItemID());
#else
  ImGui::RenderNavHighlight(item, ImGui::GetItemID());
#endif
}

namespace {

bool asked_by_keys() {
  const ImGuiContext& g = *ImGui::GetCurrentContext();
#if IMGUI_VERSION_NUM >= 19140
  return g.NavHighlightItemUnderNav && g.NavCursorVisible;
#else
  return g.NavDisableMouseHover && g.NavCursorVisible;
#endif
}

/// Where the mouse would be if it had asked for the hint of this item: the keys ask without it, wherever it lies.
ImVec2 asked_at(const ItemRect& item) {
  return asked_by_keys() ? ImVec2{item.x, item.y + item.h / 2} : ImGui::GetIO().MousePos;
}

/// No hint right after a press, while the mouse stays there. A disabled item still shows why it is disabled.
bool was_pressed_here() {
  if (asked_by_keys() || !ImGui::IsItemHovered()) return false;
  const ImGuiIO& io = ImGui::GetIO();
  const ImVec2 moved{io.MousePos.x - io.MouseClickedPos[0].x, io.MousePos.y - io.MouseClickedPos[0].y};
  return moved.x * moved.x + moved.y * moved.y < io.MouseDragThreshold * io.MouseDragThreshold;
}

}  // namespace

namespace {

ImVec2 card_padding(const Theme& theme) { return {theme.px(12), theme.px(10)}; }

}  // namespace

HoverCard::HoverCard(const ViewServices& services) {
  // ImGui draws a tooltip with the corners of a window, which are square, not with those of a popup.
  ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, services.theme->px(6));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, card_padding(*services.theme));
  ImGui::BeginTooltip();
  ImGui::PopStyleVar(2);
}
HoverCard::~HoverCard() { ImGui::EndTooltip(); }

void hint_of(const ViewServices& services, std::string_view hint) {
  if (hint.empty() || !ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled) || was_pressed_here()) return;
  const Theme& theme = *services.theme;
  const char *begin = hint.data(), *end = begin + hint.size();
  const float wrap = theme.px(360);
  const ImVec2 padding = card_padding(theme), text = ImGui::CalcTextSize(begin, end, false, wrap);
  const ImVec2 size{text.x + 2 * padding.x, text.y + 2 * padding.y};
  const ImVec2 corner = ImGui::GetWindowPos(), window = ImGui::GetWindowSize();
  const ImVec2 at = hint_place(last_item(), {corner.x, corner.y, window.x, window.y}, size, asked_at(last_item()),
                               ImGui::GetIO().DisplaySize, theme.px(5));
  ImGui::SetNextWindowPos(at);
  const HoverCard card(services);
  ImGui::PushTextWrapPos(padding.x + wrap);
  ImGui::TextUnformatted(begin, end);
  ImGui::PopTextWrapPos();
  services.items->add_text("hint", item_rect(at, {at.x + size.x, at.y + size.y}), std::string(hint));
}

namespace {

float tab_width(std::string_view name) {
  return ImGui::CalcTextSize(name.data(), name.data() + name.size()).x + 2 * ImGui::GetStyle().FramePadding.x;
}

int rows_of_tabs(const ViewServices& services, std::span<const std::string_view> names) {
  const float room = ImGui::GetContentRegionAvail().x;
  float used = 0;
  int rows = 1;
  for (const std::string_view name : names) {
    if (used > 0 && used + 2 + tab_width(name) >= room) ++rows, used = 0;
    used += tab_width(name) + services.theme->px(2);
  }
  return rows;
}

}  // namespace

bool begin_combo(const char* label, const std::string& shown, ImGuiComboFlags flags) {
  const float room = ImGui::CalcItemWidth() - ImGui::GetFrameHeight() - 2 * ImGui::GetStyle().FramePadding.x;
  return ImGui::BeginCombo(label, cut_to(shown, room).c_str(), flags);
}

bool drop_down(const ViewServices& services, const char* prefix, std::span<const std::string_view> names,
               std::span<const std::string_view> hints, int& chosen, float width) {
  const int before = chosen;
  const std::string now(names[static_cast<std::size_t>(chosen)]);
  ImGui::PushID(prefix);
  ImGui::SetNextItemWidth(std::min(services.theme->px(width), ImGui::GetContentRegionAvail().x));
  const bool open = begin_combo("##choice", now, ImGuiComboFlags_HeightLarge);
  services.items->add_text(prefix, last_item(), now);
  const bool by_keys = (ImGui::GetIO().ConfigFlags & ImGuiConfigFlags_NavEnableKeyboard) != 0;
  for (int i = 0; open && i < static_cast<int>(names.size()); ++i) {
    if (ImGui::Selectable(std::string(names[static_cast<std::size_t>(i)]).c_str(), i == before)) chosen = i;
    if (i == before && by_keys) ImGui::SetItemDefaultFocus();  // arrows go on from it
    services.items->add(prefix, i, last_item());
    if (i < static_cast<int>(hints.size())) hint_of(services, hints[static_cast<std::size_t>(i)]);
  }
  if (open) ImGui::EndCombo();
  ImGui::PopID();
  return chosen != before;
}

bool segmented(const ViewServices& services, const char* prefix, std::span<const std::string_view> names,
               std::span<const std::string_view> hints, int& chosen, int most_rows) {
  bool changed = false;
  const Palette& p = services.theme->palette;
  ImGui::PushID(prefix);
  if (rows_of_tabs(services, names) > most_rows) {  // they would take the picture's room
    changed = drop_down(services, prefix, names, hints, chosen, 220);
    ImGui::PopID();
    return changed;
  }
  const float right = right_edge_on_screen();
  for (int i = 0; i < static_cast<int>(names.size()); ++i) {
    const std::string name(names[i]);
    if (i > 0 && ImGui::GetItemRectMax().x + 2 + tab_width(name) < right) ImGui::SameLine(0, services.theme->px(2));
    const bool active = i == chosen;
    ImGui::PushStyleColor(ImGuiCol_Button, to_imgui(active ? mix(p.panel, p.accent, 0.30) : p.panel));
    ImGui::PushStyleColor(ImGuiCol_Text, to_imgui(active ? p.text : p.muted));
    if (ImGui::Button(name.c_str()) && !active) {
      chosen = i;
      changed = true;
    }
    ImGui::PopStyleColor(2);
    services.items->add(prefix, i, last_item());
    if (i < static_cast<int>(hints.size())) hint_of(services, hints[static_cast<std::size_t>(i)]);
  }
  ImGui::PopID();
  return changed;
}

bool line_button(const ViewServices& services, const char* item, std::string_view label, std::string_view hint, bool on,
                 bool first) {
  const Palette& p = services.theme->palette;
  const float right = right_edge_on_screen();
  if (!first && ImGui::GetItemRectMax().x + 2 + tab_width(label) < right) ImGui::SameLine(0, services.theme->px(2));
  ImGui::PushStyleColor(ImGuiCol_Button, to_imgui(on ? mix(p.panel, p.accent, 0.30) : p.panel));
  ImGui::PushStyleColor(ImGuiCol_Text, to_imgui(on ? p.text : p.muted));
  const bool pressed = ImGui::Button((std::string(label) + "##" + item).c_str());
  ImGui::PopStyleColor(2);
  services.items->add_text(item, last_item(), on ? "on" : "off");
  hint_of(services, hint);
  return pressed;
}

void legend(const ViewServices& services, std::span<const Swatch> swatches) {
  const Theme& theme = *services.theme;
  const FontScope font(theme.fonts.small);
  const float h = ImGui::GetTextLineHeight(), side = h * 0.72f;
  const float right = right_edge_on_screen();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  for (std::size_t i = 0; i < swatches.size(); ++i) {
    const Swatch& s = swatches[i];
    const float width = side * 1.4f + theme.px(5) + ImGui::CalcTextSize(s.label.c_str()).x;
    if (i > 0 && ImGui::GetItemRectMax().x + theme.px(14) + width < right) ImGui::SameLine(0, theme.px(14));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 a{at.x, at.y + (h - side) / 2}, b{at.x + side * 1.4f, at.y + (h + side) / 2};
    if (s.colour.a != 0) list.AddRectFilled(a, b, to_imgui(s.colour), 2);
    if (s.outline) list.AddRect(a, b, to_imgui(theme.palette.line), 2);
    if (s.struck) list.AddLine({a.x + 1, (a.y + b.y) / 2}, {b.x - 1, (a.y + b.y) / 2}, to_imgui(theme.palette.muted));
    ImGui::Dummy({side * 1.4f, h});
    ImGui::SameLine(0, theme.px(5));
    text_in(theme.palette.muted, s.label);
  }
}

void too_little_room(const ViewServices& services, const char* what) {
  const std::string text = "Too little room for the " + std::string(what) + ": maximise the view.";
  wrapped_text_in(services.theme->palette.muted, text);
  services.items->add_text("too_little." + std::string(what), last_item(), text);
}

namespace {

float height_within(float width, ImFont* font, std::string_view text) {
  const FontScope scope(font);
  return ImGui::CalcTextSize(text.data(), text.data() + text.size(), false, width).y;
}

}  // namespace

void empty_state(const ViewServices& services, ViewContext& context, const char* item, std::string_view title,
                 std::string_view what, std::string_view button, std::string_view command) {
  const Theme& theme = *services.theme;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float width = std::min(room.x, theme.px(420)), left = ImGui::GetCursorPosX() + (room.x - width) / 2;
  const float gap = ImGui::GetStyle().ItemSpacing.y;
  const float of_title = height_within(width, theme.fonts.bold, title), of_what = height_within(width, nullptr, what);
  const float height = of_title + gap + of_what + (command.empty() ? 0 : gap + ImGui::GetFrameHeight());
  const float middle = std::min(room.y * 0.36f - theme.px(30), room.y - height);
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + std::max(0.f, middle));
  ImGui::PushTextWrapPos(left + width);
  ImGui::SetCursorPosX(left);
  draw_text(theme.fonts.bold, theme.palette.text, title);
  ImGui::SetCursorPosX(left);
  const bool has_room = height <= room.y;
  if (has_room) text_in(theme.palette.muted, what);
  if (!command.empty()) {
    ImGui::SetCursorPosX(left);
    if (ImGui::Button(std::string(button).c_str()) && context.command) context.command(std::string(command));
    services.items->add(item, last_item());
  }
  if (!has_room) {  // what can be done comes before what is said of it, as far as that goes
    ImGui::SetCursorPosX(left);
    const float rest = ImGui::GetContentRegionAvail().y;
    lines_of_text(services, theme.palette.muted, std::string(what),
                  std::max(1, static_cast<int>(rest / ImGui::GetTextLineHeight())));
  }
  ImGui::PopTextWrapPos();
}

namespace {

void dashed_line(ImDrawList& list, ImVec2 a, ImVec2 b, ImU32 colour, float width, float dash) {
  const bool across = a.y == b.y;
  const float length = across ? b.x - a.x : b.y - a.y;
  for (float s = 0; s < length; s += 2 * dash) {
    const float e = std::min(s + dash, length);
    list.AddLine(across ? ImVec2{a.x + s, a.y} : ImVec2{a.x, a.y + s},
                 across ? ImVec2{a.x + e, a.y} : ImVec2{a.x, a.y + e}, colour, width);
  }
}

}  // namespace

void preview_frame(const ViewServices& services, ImVec2 min, ImVec2 max) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImU32 colour = to_imgui(services.theme->palette.preview);
  const float w = services.theme->px(1.5f), dash = services.theme->px(6);
  dashed_line(list, min, {max.x, min.y}, colour, w, dash);
  dashed_line(list, {min.x, max.y}, max, colour, w, dash);
  dashed_line(list, min, {min.x, max.y}, colour, w, dash);
  dashed_line(list, {max.x, min.y}, max, colour, w, dash);
}

void preview_badge(const ViewServices& services) {
  const Theme& theme = *services.theme;
  ImFont* font = theme.fonts.small ? theme.fonts.small : ImGui::GetFont();
  const char *begin = kPreviewBadge.data(), *end = begin + kPreviewBadge.size();
  const float pad = theme.px(7), height = font_size(font) + theme.px(3), width = text_width(font, begin, end) + 2 * pad;
  const float right = right_edge_on_screen();
  ImGui::SameLine();
  const ImVec2 a{std::max(ImGui::GetCursorScreenPos().x, right - width), ImGui::GetCursorScreenPos().y},
      b{a.x + width, a.y + height};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(a, b, to_imgui(theme.palette.preview), height / 2);
  list.AddText(font, font_size(font), {a.x + pad, a.y + theme.px(1)}, to_imgui(ink_on(theme.palette.preview)), begin,
               end);
  ImGui::Dummy({0, height});
  services.items->add("preview.badge", item_rect(a, b));
}

std::string head_title(const ViewContext& context) {
  const RunRecord& run = *context.a->run;
  const Cursor at = context.cursor_in(run);
  std::string title = "Layer " + std::to_string(at.layer) + " · KV head " + std::to_string(at.kv_head);
  if (context.b != nullptr) title = context.a->label + ": " + title;
  return title;
}

}  // namespace kvscope::views
