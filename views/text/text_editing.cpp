#include "views/text/text_editing.h"

#include <algorithm>
#include <tuple>

#include "engine/core/support/utf8.h"

namespace kvscope::views {

TextEditing::TextEditing(const Advances& advances, TextModel::Lines lines)
    : lines_(lines), model_(lines), layout_(advances) {}

void TextEditing::set_text(std::string text) {
  model_.set_text(std::move(text));
  // Nothing is measured here: between two drawings the fonts may have been made anew, and the ones known are gone.
  if (!model_.take_edits().empty()) layout_.reset(layout_.width());
  upstream_ = false;
}

void TextEditing::set_width(float width, bool new_advances) {
  if (lines_ == TextModel::Lines::one) width = 0;
  if (width != layout_.width() || new_advances || !measured_) layout_.reset(width);
  measured_ = true;
}

bool TextEditing::follow_edits() {
  const std::vector<TextEdit> edits = model_.take_edits();
  if (edits.size() == 1 && measured_) {
    layout_.edited(text(), edits.front());
  } else if (!edits.empty()) {  // each would need the text as it was then
    layout_.reset(layout_.width());
  }
  return !edits.empty();
}

std::size_t TextEditing::caret_line() {
  layout_.reach_offset(text(), model_.caret());
  return layout_.line_of(text(), model_.caret(), upstream_);
}

float TextEditing::caret_x() { return layout_.x_of(text(), caret_line(), model_.caret()); }

// ------------------------------------------------------------------------------------------------ keys

TextEditing::Heard TextEditing::hear(const TextEvent& event, int page, bool read_only, const Clipboard& clipboard) {
  if (event.key == "escape" || (event.key == "enter" && lines_ == TextModel::Lines::one)) return Heard::left;
  if (read_only) {
    if (event.character != 0) return Heard::nothing;
    if (event.ctrl && (event.key == "c" || event.key == "insert") && !model_.selected().empty())
      clipboard.set(std::string(model_.selected()));
    if (event.ctrl && event.key == "a") return model_.select_all(), Heard::moved;
    return move(event, page) ? Heard::moved : Heard::nothing;
  }
  Heard heard = Heard::nothing;
  if (event.character != 0) {
    if (event.character < 0x20 || event.character == 0x7f) return heard;
    std::string typed;
    append_utf8(typed, event.character);
    model_.insert(typed);
    heard = Heard::changed;
  } else {
    heard = hear_key(event, page, clipboard);
  }
  if (heard == Heard::changed) {
    if (!follow_edits()) heard = Heard::moved;  // nothing to undo, say
    upstream_ = false;
    wanted_x_.reset();
  }
  return heard;
}

TextEditing::Heard TextEditing::hear_key(const TextEvent& event, int page, const Clipboard& clipboard) {
  if (event.alt) return Heard::nothing;
  if (const auto edited = edit(event, clipboard)) return *edited;
  if (event.ctrl && event.key == "a") {
    model_.select_all();
    return Heard::moved;
  }
  return move(event, page) ? Heard::moved : Heard::nothing;
}

// Nothing: not a key that edits.
std::optional<TextEditing::Heard> TextEditing::edit(const TextEvent& event, const Clipboard& clipboard) {
  const std::string& key = event.key;
  const auto copy = [&] {
    const bool any = !model_.selected().empty();
    if (any) clipboard.set(std::string(model_.selected()));
    return any;
  };
  if (key == "backspace") {
    event.ctrl ? model_.erase_word_left() : model_.erase_left();
  } else if (key == "delete" && event.shift) {
    if (copy()) model_.erase_left();
  } else if (key == "delete") {
    event.ctrl ? model_.erase_word_right() : model_.erase_right();
  } else if (key == "enter" && !event.ctrl && lines_ == TextModel::Lines::many) {
    model_.insert("\n");
  } else if (key == "tab" && !event.ctrl && !event.shift && lines_ == TextModel::Lines::many) {
    model_.insert("\t");
  } else if ((key == "insert" && event.shift) || (event.ctrl && key == "v")) {
    model_.insert(clipboard.get());
  } else if (event.ctrl && (key == "c" || key == "insert")) {
    copy();
    return Heard::nothing;
  } else if (event.ctrl && key == "x") {
    if (copy()) model_.erase_left();
  } else if (event.ctrl && (key == "y" || (key == "z" && event.shift))) {
    model_.redo();
  } else if (event.ctrl && key == "z") {
    model_.undo();
  } else {
    return std::nullopt;
  }
  return Heard::changed;
}

bool TextEditing::move(const TextEvent& event, int page) {
  const std::string& key = event.key;
  if (key == "up" || key == "down" || key == "pageup" || key == "pagedown") {
    const std::ptrdiff_t lines = key.starts_with("page") ? std::max(1, page - 1) : 1;
    move_lines(key.ends_with("up") ? -lines : lines, event.shift);
    return true;
  }
  const std::size_t line = caret_line();
  bool at_end = false;
  if (key == "left") {
    event.ctrl ? model_.move_word_left(event.shift) : model_.move_left(event.shift);
  } else if (key == "right") {
    event.ctrl ? model_.move_word_right(event.shift) : model_.move_right(event.shift);
  } else if (key == "home") {
    model_.place(event.ctrl ? 0 : layout_.begin_of(line), event.shift);
  } else if (key == "end") {
    layout_.reach_line(text(), line);
    model_.place(event.ctrl ? text().size() : layout_.end_of(text(), line), event.shift);
    at_end = true;
  } else {
    return false;
  }
  upstream_ = at_end;
  wanted_x_.reset();
  return true;
}

void TextEditing::move_lines(std::ptrdiff_t lines, bool select) {
  const auto line = static_cast<std::ptrdiff_t>(caret_line());
  const float x = wanted_x_ ? *wanted_x_ : caret_x();
  layout_.reach_line(text(), static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, line + lines)));
  const auto last = static_cast<std::ptrdiff_t>(layout_.n_lines()) - 1;
  if (line + lines < 0) {
    model_.place(0, select);
  } else if (line + lines > last) {
    model_.place(text().size(), select);
  } else {
    const auto to = static_cast<std::size_t>(line + lines);
    model_.place(layout_.offset_at(text(), to, x), select);
    upstream_ = to + 1 < layout_.n_lines() && model_.caret() == layout_.begin_of(to + 1);
  }
  wanted_x_ = x;
}

// ------------------------------------------------------------------------------------------------ the mouse

void TextEditing::press(std::size_t line, float x, int clicks, bool select) {
  layout_.reach_line(text(), line);
  line = std::min(line, layout_.n_lines() - 1);
  const std::size_t at = layout_.offset_at(text(), line, x);
  clicks_ = (clicks - 1) % 3 + 1;
  wanted_x_.reset();
  if (clicks_ == 1) {
    model_.place(at, select);
    upstream_ = line + 1 < layout_.n_lines() && model_.caret() == layout_.begin_of(line + 1);
  } else {
    upstream_ = false;
    select_around(at);
  }
  std::tie(pressed_begin_, pressed_end_) =
      clicks_ == 1 ? std::pair{model_.anchor(), model_.anchor()} : model_.selection();
}

void TextEditing::select_around(std::size_t at) { clicks_ == 2 ? model_.select_word(at) : model_.select_paragraph(at); }

void TextEditing::drag(std::size_t line, float x) {
  layout_.reach_line(text(), line);
  line = std::min(line, layout_.n_lines() - 1);
  std::size_t begin = layout_.offset_at(text(), line, x), end = begin;
  upstream_ = line + 1 < layout_.n_lines() && begin == layout_.begin_of(line + 1);
  if (clicks_ > 1) {
    upstream_ = false;
    select_around(begin);
    std::tie(begin, end) = model_.selection();
  }
  const bool back = begin < pressed_begin_;
  model_.place(back ? pressed_end_ : pressed_begin_, false);
  model_.place(back ? begin : std::max(end, pressed_end_), true);
}

}  // namespace kvscope::views
