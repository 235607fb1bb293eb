#include "views/widgets/text_field.h"

#include <imgui_internal.h>  // the hint of a text of many lines, and a change from outside

#include <algorithm>
#include <utility>

#include "engine/core/support/text.h"
#include "engine/core/support/utf8.h"
#include "engine/core/support/utf8_prefix.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::views {
namespace {

/// Hebrew, Arabic and the scripts after them, with their presentation forms.
bool is_right_to_left(char32_t point) {
  return (point >= 0x590 && point < 0x900) || (point >= 0xfb1d && point < 0xfe00) ||
         (point >= 0xfe70 && point < 0xff00) || (point >= 0x10800 && point < 0x11000) ||
         (point >= 0x1e800 && point < 0x1f000);
}

int resize(ImGuiInputTextCallbackData* data) {
  auto& text = *static_cast<std::string*>(data->UserData);
  text.resize(static_cast<std::size_t>(data->BufTextLen));
  data->Buf = text.data();
  return 0;
}

/// Gives InputText the text that `id` has from now on. It clamps the cursor itself only in a field that has the keyboard, but draws
/// the cursor also in one that had it and changes its width; there it would read after the end of a shorter text.
void take_change(ImGuiID id, const std::string& text, bool read_only) {
  ImGuiInputTextState* state = ImGui::GetInputTextState(id);
  if (!state) return;
  const int end = static_cast<int>(text.size());
  if (!read_only && (state->Flags & ImGuiInputTextFlags_ReadOnly) == 0) {
    state->ReloadUserBufAndKeepSelection();
    state->ReloadSelectionStart = std::min(state->ReloadSelectionStart, end);
    state->ReloadSelectionEnd = std::min(state->ReloadSelectionEnd, end);
  } else {  // InputText has no copy of a text that is read only
    state->TextLen = end;
    state->CursorClamp();
  }
}

/// A dialog or a menu is open.
bool is_popup_open() { return ImGui::IsPopupOpen("", ImGuiPopupFlags_AnyPopupId | ImGuiPopupFlags_AnyPopupLevel); }

}  // namespace

void TextField::set_text(const std::string& text) {
  if (text == text_) return;
  text_ = text;
  changed_outside_ = true;
  look_at_text();
}

bool TextField::is_editable() const { return text_.size() <= kMostEdited && !has_zero_; }

void TextField::look_at_text() {
  measured_.width = -1;
  has_zero_ = text_.find('\0') != std::string::npos;  // where a text ends for InputText
  const std::string_view shown = utf8_prefix(text_, kMostShown);
  excerpt_ = is_editable() ? "" : std::string(shown);
  std::ranges::replace(excerpt_, '\0', ' ');
  right_to_left_ = false;
  for (std::size_t at = 0; at < shown.size() && !right_to_left_;) {
    const Utf8Char c = decode_utf8(text_, at);
    right_to_left_ = c.valid && is_right_to_left(c.code_point);
    at += c.length;
  }
}

float TextField::height_of(float width) {
  const ImGuiStyle& style = ImGui::GetStyle();
  if (width != measured_.width || ImGui::GetFontSize() != measured_.font) {
    const std::string& shown = is_editable() ? text_ : excerpt_;
    const float room = std::max(1.f, width - 2 * style.FramePadding.x - style.ScrollbarSize);
    const float height = ImGui::CalcTextSize(shown.data(), shown.data() + shown.size(), false, room).y;
    measured_ = {width, ImGui::GetFontSize(), std::max(height, ImGui::GetFontSize())};
  }
  return measured_.height + 2 * style.FramePadding.y + 1;
}

bool TextField::draw(const TextFieldLook& look) {
  ImGui::PushStyleColor(ImGuiCol_FrameBg, to_imgui(services_.theme->palette.raised));
  const bool changed = is_editable() ? draw_input(look, look.size, text_, look.read_only) : draw_excerpt(look);
  ImGui::PopStyleColor();
  services_.items->add(look.item, last_item());
  if (focused_) {
    const ItemRect r = last_item();
    ImGui::GetWindowDrawList()->AddRect({r.x - 1, r.y - 1}, {r.x + r.w + 1, r.y + r.h + 1},
                                        to_imgui(services_.theme->palette.accent), ImGui::GetStyle().ChildRounding,
                                        services_.theme->px(1));
  }
  if (changed) look_at_text();
  return changed;
}

bool TextField::draw_input(const TextFieldLook& look, ImVec2 size, std::string& text, bool read_only) {
  ImGuiContext& g = *ImGui::GetCurrentContext();
  const std::string label = "##" + std::string(look.item);
  const ImGuiID id = ImGui::GetID(label.c_str());
  if (std::exchange(changed_outside_, false)) take_change(id, text, read_only);
  // Escape would bring back the text as it was when the field took the keyboard.
  if (g.ActiveId == id && (is_popup_open() || ImGui::IsKeyPressed(ImGuiKey_Escape))) ImGui::ClearActiveID();
  // Ctrl+Enter is a shortcut of the window; InputText would give the keyboard away.
  if (g.ActiveId == id && g.IO.KeyCtrl) {
    for (const ImGuiKey key : {ImGuiKey_Enter, ImGuiKey_KeypadEnter})
      ImGui::SetKeyOwner(key, ImGuiKeyOwner_NoOwner, ImGuiInputFlags_LockThisFrame);
  }
  if (look.focus && g.ActiveId != id) ImGui::SetKeyboardFocusHere();
  const bool many = lines_ == Lines::many;
  ImGuiInputTextFlags flags = ImGuiInputTextFlags_CallbackResize;
  if (!look.own_undo) flags |= ImGuiInputTextFlags_NoUndoRedo;
  if (many) flags |= ImGuiInputTextFlags_Multiline | ImGuiInputTextFlags_WordWrap;
  if (many && look.tabs) flags |= ImGuiInputTextFlags_AllowTabInput;
  if (read_only) flags |= ImGuiInputTextFlags_ReadOnly;
  const bool changed = ImGui::InputTextEx(label.c_str(), look.hint, text.data(), static_cast<int>(text.size() + 1),
                                          size, flags, resize, &text);
  focused_ = g.ActiveId == id;
  // Views that come while the user types do not take the keyboard.
  if (focused_ && !read_only) g.ActiveIdNoClearOnFocusLoss = true;
  if (look.follow) follow_end(id);
  return changed;
}

void TextField::follow_end(ImGuiID id) {
  const auto& children = ImGui::GetCurrentWindow()->DC.ChildWindows;
  if (children.empty() || children.back()->ChildId != id) return;
  ImGuiWindow* child = children.back();
  // The end moves when the text grows, which is no scrolling of the user's.
  if (std::exchange(end_, child->ScrollMax.y) == child->ScrollMax.y) at_end_ = child->Scroll.y >= end_ - 1;
  if (at_end_) ImGui::SetScrollY(child, end_);
}

bool TextField::draw_excerpt(const TextFieldLook& look) {
  const std::string note = text_.size() > kMostEdited
                               ? "Read-only: the first " + bytes_text(static_cast<double>(excerpt_.size())) + " of " +
                                     bytes_text(static_cast<double>(text_.size()))
                               : "Read-only: contains NUL bytes";
  ImVec2 size = look.size;
  const float line = ImGui::GetFrameHeight();
  if (size.y > 2 * line) size.y -= line;
  ImGui::BeginGroup();
  draw_input(look, size, excerpt_, true);
  text_in(services_.theme->palette.muted, note);
  bool cleared = false;
  if (!look.read_only) {
    ImGui::SameLine();
    cleared = ImGui::SmallButton("Clear");
    services_.items->add("text.clear", last_item());
  }
  ImGui::EndGroup();
  if (cleared) text_.clear(), changed_outside_ = true;
  return cleared;
}

}  // namespace kvscope::views
