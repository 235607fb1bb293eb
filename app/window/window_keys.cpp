// AppWindow: whom a key is for.

#include <cctype>
#include <set>
#include <utility>

#include "app/window/app_window.h"
#include "app/window/escape_key.h"
#include "app/window/keyboard_focus.h"
#include "app/workspace/look_scope.h"

namespace kvscope::app {
namespace {

/// A key with Ctrl that means something to the field that has the keyboard.
bool edits_text(const KeyPress& press) {
  static const std::set<std::string> kKeys = {"left", "right",  "up",        "down",   "home", "end", "a",
                                              "c",    "delete", "backspace", "insert", "v",    "x"};
  if (press.key == "y" || press.key == "z") return field_has_undo();
  return kKeys.contains(press.key) && (!press.shift || press.key.size() > 1);
}

bool is_character(const KeyPress& press) {
  return !press.ctrl && !press.alt && (press.key.size() == 1 || press.key == "space");
}

bool asks(const std::optional<TextField>& field) { return field && field->asks_keyboard > 0; }

// A field that opens has the keyboard two frames later, and in the first of its own hears nothing.
constexpr int kUntilField = 3;

}  // namespace

// A key that is no text acts on what the input before it has made, and what comes after it acts on what it has made: a frame
// lies between. What follows a key that hands the keyboard on waits until the new owner was drawn, or the old one would hear
// it.
void AppWindow::take_keys() {
  holds_input_ = hold_ > 0 || asks(ui_.find) || asks(ui_.go_to);
  if (is_input_drawn()) batch_ = Batch::none;
  while (window_.has_input() && takes_next(window_.next_input())) {
    const std::optional<KeyPress> press = window_.next_input().press;
    window_.feed_input();
    if (!press) continue;
    const auto owner = key_owner(ui_);
    take_key(*press);
    if (key_owner(ui_) == owner) continue;
    holds_input_ = true, hold_ = kUntilField, key_owner_ = key_owner(ui_);
  }
}

/// Whether the next frame hears it too.
bool AppWindow::takes_next(const InputEvent& event) {
  // Ctrl that is let go before its frame is drawn was never held to the key or click of that frame.
  if (event.is_release()) return batch_ < Batch::pointer || !event.is_modifier();
  if (holds_input_) return false;
  if (event.is_pointer()) {
    batch_ = Batch::pointer;
    return true;
  }
  const bool text = is_typing() && (!event.press || is_character(*event.press));
  if (batch_ != Batch::none && !(text && batch_ == Batch::text)) return false;
  batch_ = text ? Batch::text : Batch::key;
  return true;
}

bool AppWindow::is_typing() const { return has_text_field() || ui_.focus_prompt || asks(ui_.find) || asks(ui_.go_to); }

// Text that came before the field that it is for has the keyboard would be lost, or go to another.
void AppWindow::look_for_new_owner() {
  if (holds_input_ && hold_ > 0) --hold_;
  const KeyOwner before = std::exchange(key_owner_, key_owner(ui_));
  if (key_owner_ != before) hold_ = kUntilField, ask_for_frames();
}

const Command* AppWindow::command_of(const KeyPress& press) const {
  const Command* command = commands_.find(Shortcut{press.key, press.ctrl, press.shift, press.alt});
  for (auto other = press.others.begin(); command == nullptr && other != press.others.end(); ++other)
    command = commands_.find(*other);
  return command;
}

void AppWindow::take_key(const KeyPress& press) {
  const bool typing = is_typing();
  if (press.key == "escape") {
    press_escape(ui_, session_.selection(), typing);
    return;
  }
  if (const std::string key = key_of_popup(ui_, press); !key.empty()) {
    ui_.popup_keys.push_back(key);
    return;
  }
  const Command* command = command_of(press);
  const bool closes_popup =
      command != nullptr && ((ui_.help && command->id == "help.keys") || (ui_.notes && command->id == "notes.show"));
  if (!closes_popup && leads_behind_popup(ui_, press)) return;
  TextField* field = ui_.find && ui_.find->focused     ? &*ui_.find
                     : ui_.go_to && ui_.go_to->focused ? &*ui_.go_to
                                                       : nullptr;
  if (field && press.key == "enter") {
    field->keys.push_back(press.shift ? "shift+enter" : "enter");
    return;
  }
  const bool function_key =
      press.key.size() > 1 && press.key[0] == 'f' && std::isdigit(static_cast<unsigned char>(press.key[1]));
  if (typing && ((!press.ctrl && !function_key) || edits_text(press))) return;
  if (!press.ctrl && !press.alt && is_key_of_controls(ui_, press.key)) return;
  if (!command) return;
  key_command_ = command->id, ++n_key_commands_;
  const LookScope look(session_.selection(), ui_, ui_.pointed_view);  // it is meant for the view that has the keys
  if (commands_.enabled(*command)) return void(panel_.run(command->id));
  if (const std::string why = commands_.refusal(*command); !why.empty()) session_.messages().refuse(why);
}

}  // namespace kvscope::app
