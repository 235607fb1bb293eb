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

/// A key with Ctrl that means something to a text.
bool edits_text(const KeyPress& press) {
  static const std::set<std::string> kKeys = {"left",   "right",     "up",     "down", "home", "end", "a", "c",
                                              "delete", "backspace", "insert", "v",    "x",    "y",   "z"};
  return kKeys.contains(press.key) && (!press.shift || press.key.size() > 1 || press.key == "z");
}

bool asks(const std::optional<TextField>& field) { return field && field->asks_keyboard > 0; }

// A field that opens has the keyboard two frames later, and in the first of its own hears nothing.
constexpr int kUntilField = 3;

}  // namespace

// What was typed after a key that hands the keyboard on waits until the new owner was drawn, or the old one would hear it.
void AppWindow::take_keys() {
  holds_input_ = hold_ > 0 || asks(ui_.find) || asks(ui_.go_to);
  if (holds_input_) return;
  std::vector<KeyPress> keys = window_.take_keys(text_.typed().focused);
  // Drawn in this round: the next one would hold back what was typed before a key that opens a field, for that field.
  if (!keys.empty()) ask_for_frames(), touched_ = true;
  for (auto press = keys.begin(); press != keys.end(); ++press) {
    const auto owner = key_owner(ui_);
    take_key(*press);
    if (key_owner(ui_) == owner) continue;
    window_.hold_behind(*press, {std::make_move_iterator(press + 1), std::make_move_iterator(keys.end())});
    return;
  }
}

// Text that came before the field that it is for has the keyboard would be lost, or somebody else's.
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
  const bool typing =
      has_text_field() || text_.typed().focused || ui_.focus_prompt || asks(ui_.find) || asks(ui_.go_to);
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
