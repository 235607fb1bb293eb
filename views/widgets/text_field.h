#pragma once
// A text to edit, or to read and copy from: Dear ImGui's InputText with wrapped lines, a text that can be of any length, and
// changes from outside while it has the keyboard.

#include <imgui.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "views/frame/view_services.h"

namespace kvscope::views {

struct TextFieldLook {
  const char* item = "text";  // its item in the registry, a literal: "prompt.text"
  ImVec2 size = {0, 0};       // as ImGui::BeginChild() has it; a height of 0 is one line's
  const char* hint = "";      // shown while there is no text
  bool read_only = false;
  bool focus = false;     // takes the keyboard
  bool follow = false;    // stays at the end while the text grows, unless the user has scrolled up
  bool own_undo = false;  // Ctrl+Z is the field's; else the window's
  bool tabs = false;      // Tab inserts a tab; else it goes to the next control
};

/// Bytes that are not UTF-8 stay as they are.
class TextField {
 public:
  enum class Lines : std::uint8_t { many, one };
  /// Longer texts are shown by their beginning and cannot be edited: InputText wraps the whole text in every frame, 9 ms a MiB.
  static constexpr std::size_t kMostEdited = 256 << 10, kMostShown = 64 << 10;

  explicit TextField(const ViewServices& services, Lines lines = Lines::many) : services_(services), lines_(lines) {}
  TextField(const TextField&) = delete;
  TextField& operator=(const TextField&) = delete;

  const std::string& text() const { return text_; }
  void set_text(const std::string& text);
  /// The next item, with the font that is current. True: the user changed the text.
  bool draw(const TextFieldLook& look);
  bool focused() const { return focused_; }
  /// Has characters of a script that is written from right to left; the window shows such text in the order in which it is stored.
  bool right_to_left() const { return right_to_left_; }
  /// Height of all its lines in an item of `width` pixels, with the font that is current and the item's padding.
  float height_of(float width);

 private:
  bool is_editable() const;
  void look_at_text();
  bool draw_input(const TextFieldLook& look, ImVec2 size, std::string& text, bool read_only);
  bool draw_excerpt(const TextFieldLook& look);
  void follow_end(unsigned id);

  const ViewServices& services_;
  Lines lines_;
  std::string text_, excerpt_;
  bool focused_ = false, changed_outside_ = false, right_to_left_ = false, at_end_ = true, has_zero_ = false;
  float end_ = 0;  // of scrolling, in the frame before
  struct {
    float width = -1, font = 0, height = 0;
  } measured_;
};

}  // namespace kvscope::views
