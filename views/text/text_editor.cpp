#include "views/text/text_editor.h"

#include <imgui_internal.h>  // the active item, and the window's inner rectangle

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/core/support/utf8.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kBytesPerFrame = 128 << 10;  // laid out beyond what is in sight: a third of a millisecond
constexpr double kBlink = 0.53, kBlinksFor = 10;   // seconds; then the caret stays, and nothing is drawn while idle

/// Keyboard navigation asks for the child window that is the editor: ImGui would go into it, and finds nothing there that
/// keys could choose.
bool entered_by_keys(const TextEditorLook& look) {
  return ImGui::GetCurrentContext()->NavActivateId == ImGui::GetID(look.item);
}

bool pressing_key_is_down() {
  return ImGui::IsKeyDown(ImGuiKey_Enter) || ImGui::IsKeyDown(ImGuiKey_KeypadEnter) || ImGui::IsKeyDown(ImGuiKey_Space);
}

/// Arrows walk on from the editor's own frame.
void give_keys_back() {
  ImGui::ClearActiveID();
  ImGuiWindow* window = ImGui::GetCurrentWindow();
  if ((ImGui::GetIO().ConfigFlags & ImGuiConfigFlags_NavEnableKeyboard) == 0 || window->ParentWindow == nullptr) return;
  ImGui::FocusWindow(window->ParentWindow);
  ImGui::SetNavID(window->ChildId, ImGuiNavLayer_Main, 0,
                  ImGui::WindowRectAbsToRel(window->ParentWindow, window->Rect()));
  ImGui::GetCurrentContext()->NavCursorVisible = true;
}

/// A dialog is open, or a menu that is not an editor's.
bool other_popup() {
  return ImGui::IsPopupOpen(static_cast<const char*>(nullptr),
                            ImGuiPopupFlags_AnyPopupId | ImGuiPopupFlags_AnyPopupLevel) &&
         !ImGui::IsPopupOpen("text_menu");
}

/// The keyboard is the active item's alone, also when a window appears beside it: a run's views do while one types.
void keep_keys() {
  ImGuiContext& g = *ImGui::GetCurrentContext();
  g.ActiveIdNoClearOnFocusLoss = true;
  g.PlatformImeData.WantTextInput = true;
  keep_all_keys();
}

class EditorChild {
 public:
  EditorChild(const ViewServices& services, const TextEditorLook& look, ImVec2 size, bool many) {
    ImGui::PushStyleColor(ImGuiCol_ChildBg, to_imgui(services.theme->palette.raised));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImGui::GetStyle().FramePadding);
    ImGui::BeginChild(
        look.item, size, ImGuiChildFlags_AlwaysUseWindowPadding,
        ImGuiWindowFlags_NoNav | (many ? 0 : ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse));
  }
  ~EditorChild() {
    end_content_at_cursor();
    ImGui::EndChild();
    ImGui::PopStyleVar();
    ImGui::PopStyleColor();
  }
  EditorChild(const EditorChild&) = delete;
  EditorChild& operator=(const EditorChild&) = delete;
};

}  // namespace

TextEditor::TextEditor(const ViewServices& services, TextModel::Lines lines)
    : services_(services), lines_(lines), font_(services), editing_(font_, lines) {}

Clipboard TextEditor::clipboard() const {
  return {[] {
            const char* text = ImGui::GetClipboardText();
            return std::string(text != nullptr ? text : "");
          },
          [](const std::string& text) { ImGui::SetClipboardText(text.c_str()); }};
}

bool TextEditor::draw(const TextEditorLook& look) {
  const bool many = lines_ == TextModel::Lines::many, new_advances = font_.use(ImGui::GetFont());
  const ImGuiStyle& style = ImGui::GetStyle();
  ImVec2 size = look.size;
  if (size.y == 0) size.y = font_.line_height() + 2 * style.FramePadding.y;
  bool changed = false;
  const bool entered = entered_by_keys(look);
  {
    const EditorChild child(services_, look, size, many);
    const ImGuiWindow& window = *ImGui::GetCurrentWindow();
    const ImRect box = window.InnerRect;
    // The bar's room is kept free: lines do not break anew when it comes.
    editing_.set_width(std::max(1.f, window.Size.x - 2 * style.FramePadding.x - style.ScrollbarSize), new_advances);
    const int page = std::max(1, static_cast<int>((box.GetHeight() - 2 * style.FramePadding.y) / font_.line_height()));
    const bool at_end = ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1;

    if (!ImGui::ItemAdd(box, ImGui::GetCurrentWindow()->GetID("text"), nullptr, ImGuiItemFlags_Inputable)) {
      focused_ = false;
    } else {
      changed = take_focus(look, ImGui::GetItemID(), box, entered);
      changed |= take_keys(look, page);
      take_mouse(box);
      changed |= draw_menu(look);
    }
    editing_.reach_line(static_cast<std::size_t>(ImGui::GetScrollY() / font_.line_height()) + page + 1);
    if (editing_.extend(kBytesPerFrame) && services_.wake) services_.wake();
    draw_lines(look, box);
    const double lines = editing_.layout().estimated_lines(text());
    const auto before = std::exchange(drawn_lines_, static_cast<std::size_t>(lines));
    if (before != drawn_lines_ && services_.wake) services_.wake();  // its height is set from them
    ImGui::ItemSize({1, static_cast<float>(lines) * font_.line_height()});
    if (std::exchange(caret_moved_, false)) {
      scroll_to_caret(box.GetHeight() - 2 * style.FramePadding.y);
    } else if (look.follow && at_end) {
      ImGui::SetScrollY(static_cast<float>(editing_.layout().estimated_lines(text())) * font_.line_height());
    }
  }
  services_.items->add(look.item, last_item());
  if (focused_) {
    const ItemRect r = last_item();
    ImGui::GetWindowDrawList()->AddRect({r.x - 1, r.y - 1}, {r.x + r.w + 1, r.y + r.h + 1},
                                        to_imgui(services_.theme->palette.accent), style.ChildRounding,
                                        services_.theme->px(1));
  }
  return changed;
}

// Keys that came before a click are older than it: they are the old owner's, so this only takes or gives up the keyboard.
bool TextEditor::take_focus(const TextEditorLook& look, unsigned id, const ImRect& box, bool entered) {
  ImGuiContext& g = *ImGui::GetCurrentContext();
  ImGuiWindow* window = ImGui::GetCurrentWindow();
  const bool hovered = is_hoverable(box, id);
  if (hovered) ImGui::SetMouseCursor(ImGuiMouseCursor_TextInput);
  if (g.ActiveId == id && other_popup()) ImGui::ClearActiveID();
  const bool clicked = ImGui::GetIO().MouseClicked[0], by_keys = look.focus || entered || chosen_by_keys(id);
  bool changed = false;
  if (g.ActiveId == id && clicked && !hovered) {
    changed = take_keys(look, 1);
    ImGui::ClearActiveID();
  }
  if ((hovered && clicked) || (by_keys && g.ActiveId != id)) {
    if (g.ActiveId == id) changed = take_keys(look, 1);
    ImGui::SetActiveID(id, window);
    ImGui::SetFocusID(id, window);
    ImGui::FocusWindow(window);
    pressed_ = hovered && clicked;
    active_at_ = ImGui::GetTime();
  }
  // A control that a key has pressed may be what asks: that key is no part of the text.
  const bool let_in = entered || (look.focus && !focused_ && pressing_key_is_down());
  entering_ = (entering_ || let_in) && g.ActiveId == id && pressing_key_is_down();
  const bool was_focused = std::exchange(focused_, g.ActiveId == id);
  if (focused_ && !was_focused && services_.typed != nullptr) {
    // What was typed before it had the keyboard, the shortcut that gave it last, was not meant for it.
    auto& events = services_.typed->events;
    const auto last = std::find_if(events.rbegin(), events.rend(), [](const TextEvent& e) { return e.ctrl; });
    events.erase(events.begin(), pressed_ || let_in ? events.end() : last.base());
  }
  if (!focused_) return pressed_ = false, changed;
  g.ActiveIdAllowOverlap = !ImGui::GetIO().MouseDown[0];
  if (pressed_ && clicked) {
    const float x = ImGui::GetIO().MousePos.x - box.Min.x - ImGui::GetStyle().FramePadding.x + scroll_x_;
    const float y = ImGui::GetIO().MousePos.y - box.Min.y - ImGui::GetStyle().FramePadding.y + ImGui::GetScrollY();
    editing_.press(static_cast<std::size_t>(std::max(0.f, y) / font_.line_height()), x, ImGui::GetMouseClickedCount(0),
                   ImGui::GetIO().KeyShift);
  }
  if (!look.read_only) {
    keep_keys();
    if (services_.typed != nullptr) services_.typed->focused = true;
  }
  return changed;
}

bool TextEditor::take_keys(const TextEditorLook& look, int page) {
  beyond_ = Beyond::nothing;
  if (!focused_ || services_.typed == nullptr) return false;
  bool changed = false;
  for (const TextEvent& event : std::exchange(services_.typed->events, {})) {
    if (entering_ && (event.key == "enter" || event.character == ' '))
      continue;  // that let one in, not a part of the text
    // Who reads goes on steering the window with all other keys.
    if (look.read_only && !(event.ctrl && (event.key == "c" || event.key == "a"))) continue;
    if (!look.read_only && event.ctrl && event.key == "z") {
      if (!event.shift && text().empty() && !editing_.can_undo()) beyond_ = Beyond::undo;
      if (event.shift && !editing_.can_redo()) beyond_ = Beyond::redo;
    }
    const auto heard = editing_.hear(event, page, look.read_only, clipboard());
    if (heard == TextEditing::Heard::nothing) continue;
    active_at_ = ImGui::GetTime();
    caret_moved_ = !look.read_only;
    changed |= heard == TextEditing::Heard::changed;
    if (heard != TextEditing::Heard::left) continue;
    give_keys_back();
    focused_ = false;
    break;
  }
  return changed;
}

// Selects while the button is held; beyond the edge it scrolls.
void TextEditor::take_mouse(const ImRect& box) {
  const ImGuiIO& io = ImGui::GetIO();
  if (!io.MouseDown[0]) pressed_ = false;
  const bool moved = io.MouseDelta.x != 0 || io.MouseDelta.y != 0;
  const float out = io.MousePos.y < box.Min.y   ? io.MousePos.y - box.Min.y
                    : io.MousePos.y > box.Max.y ? io.MousePos.y - box.Max.y
                                                : 0;
  if (!focused_ || !pressed_ || io.MouseClicked[0] || (!moved && out == 0)) return;
  if (out != 0 && lines_ == TextModel::Lines::many) {
    ImGui::SetScrollY(ImGui::GetScrollY() + out * std::min(1.f, io.DeltaTime * 8));
    if (services_.wake) services_.wake();
  }
  const ImVec2 padding = ImGui::GetStyle().FramePadding;
  const float y = std::clamp(io.MousePos.y, box.Min.y, box.Max.y) - box.Min.y - padding.y + ImGui::GetScrollY();
  editing_.drag(static_cast<std::size_t>(std::max(0.f, y) / font_.line_height()),
                io.MousePos.x - box.Min.x - padding.x + scroll_x_);
  active_at_ = ImGui::GetTime();
}

bool TextEditor::draw_menu(const TextEditorLook& look) {
  if (ImGui::IsItemHovered() && ImGui::IsMouseReleased(1)) ImGui::OpenPopup("text_menu");
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {services_.theme->px(8), services_.theme->px(6)});
  const bool open = ImGui::BeginPopup("text_menu");
  ImGui::PopStyleVar();
  if (!open) return false;
  bool changed = false;
  const bool selected = !editing_.model().selected().empty();
  const auto entry = [&](const char* title, const char* keys, const char* key, bool enabled) {
    if (!ImGui::MenuItem(title, keys, false, enabled)) return;
    changed |= editing_.hear({.key = key, .ctrl = true}, 1, look.read_only, clipboard()) == TextEditing::Heard::changed;
  };
  if (!look.read_only) entry("Cut", "Ctrl+X", "x", selected);
  entry("Copy", "Ctrl+C", "c", selected);
  if (!look.read_only) entry("Paste", "Ctrl+V", "v", true);
  entry("Select all", "Ctrl+A", "a", !text().empty());
  ImGui::EndPopup();
  return changed;
}

void TextEditor::scroll_to_caret(float height) {
  if (lines_ == TextModel::Lines::one) return;
  const float line = font_.line_height(), top = static_cast<float>(editing_.caret_line()) * line;
  if (top < ImGui::GetScrollY()) ImGui::SetScrollY(top);
  if (top + line > ImGui::GetScrollY() + height) ImGui::SetScrollY(top + line - height);
}

void TextEditor::draw_lines(const TextEditorLook& look, const ImRect& box) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Palette& palette = services_.theme->palette;
  const ImVec2 padding = ImGui::GetStyle().FramePadding;
  if (lines_ == TextModel::Lines::one) {
    const float room = box.GetWidth() - 2 * padding.x, x = editing_.caret_x();
    scroll_x_ = focused_ ? std::clamp(scroll_x_, std::max(0.f, x - room), std::max(0.f, x)) : 0;
  }
  const ImVec2 origin{box.Min.x + padding.x - scroll_x_, box.Min.y + padding.y - ImGui::GetScrollY()};
  if (text().empty() && !look.hint.empty()) {
    const ImVec2 at{origin.x, origin.y + (font_.line_height() - ImGui::GetFontSize()) / 2};
    const float wrap = lines_ == TextModel::Lines::one ? 0 : std::max(1.f, box.GetWidth() - 2 * padding.x);
    list.AddText(ImGui::GetFont(), ImGui::GetFontSize(), at, to_imgui(palette.faint), look.hint.data(),
                 look.hint.data() + look.hint.size(), wrap);
  }
  const TextLayout& layout = editing_.layout();
  const auto first = static_cast<std::size_t>(std::max(0.f, ImGui::GetScrollY() - padding.y) / font_.line_height());
  right_to_left_ = false;
  for (std::size_t line = first; line < layout.n_lines(); ++line) {
    const ImVec2 at{origin.x, std::floor(origin.y + static_cast<float>(line) * font_.line_height())};
    if (at.y > box.Max.y) break;
    draw_selection(look, line, at);
    const std::size_t begin = layout.begin_of(line), end = layout.end_of(text(), line);
    font_.draw(list, layout, text(), begin, end, at, palette.text);
    for (std::size_t i = begin; i < end && !right_to_left_;) {
      const Utf8Char c = decode_utf8(text(), i);
      right_to_left_ = c.valid && is_right_to_left(c.code_point);
      i += c.length;
    }
    services_.items->add(look.item, static_cast<int>(line),
                         {at.x, at.y, layout.x_of(text(), line, end), font_.line_height()});
  }
  if (focused_ && !look.read_only) draw_caret(origin);
}

void TextEditor::draw_selection(const TextEditorLook& look, std::size_t line, ImVec2 at) const {
  const auto [from, to] = editing_.model().selection();
  const TextLayout& layout = editing_.layout();
  const std::size_t begin = layout.begin_of(line), end = layout.end_of(text(), line);
  if (from == to || to <= begin || from > end || (from == end && !layout.ends_paragraph(text(), line))) return;
  const float left = layout.x_of(text(), line, std::max(from, begin));
  float right = layout.x_of(text(), line, std::min(to, end));
  if (to > end && layout.ends_paragraph(text(), line)) right += font_.line_height() * 0.3f;  // the line end itself
  const bool here = focused_ || look.read_only;
  ImGui::GetWindowDrawList()->AddRectFilled(
      {at.x + left, at.y}, {at.x + right, at.y + font_.line_height()},
      to_imgui(with_alpha(services_.theme->palette.accent, static_cast<std::uint8_t>(here ? 110 : 50))));
}

void TextEditor::draw_caret(ImVec2 origin) {
  const double since = ImGui::GetTime() - active_at_;
  const bool blinks = since < kBlinksFor;
  if (blinks && services_.typed != nullptr)
    services_.typed->redraw_in = std::min(services_.typed->redraw_in, kBlink - std::fmod(since, kBlink));
  if (blinks && static_cast<int>(since / kBlink) % 2 == 1) return;
  const auto line = static_cast<float>(editing_.caret_line());
  const ImVec2 at{std::floor(origin.x + editing_.caret_x()), std::floor(origin.y + line * font_.line_height())};
  const float gap = services_.theme->px(1), width = std::max(1.f, std::round(services_.theme->px(1.5f)));
  ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + gap}, {at.x + width, at.y + font_.line_height() - gap},
                                            to_imgui(services_.theme->palette.text));
}

}  // namespace kvscope::views
