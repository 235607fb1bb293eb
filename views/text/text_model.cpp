#include "views/text/text_model.h"

#include <algorithm>
#include <iterator>

#include "engine/core/support/utf8.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kMaxUndoBytes = 64u << 20;
constexpr char32_t kJoiner = 0x200d;

/// What stands on, below or after another character and is no step of the caret: marks of the scripts that a prompt is
/// likely to have, variation selectors, skin tones, tags. First and last, ascending.
constexpr std::pair<char32_t, char32_t> kMarks[] = {
    {0x300, 0x36f},    {0x483, 0x489},   {0x591, 0x5bd},   {0x5bf, 0x5bf},   {0x5c1, 0x5c2},     {0x5c4, 0x5c5},
    {0x610, 0x61a},    {0x64b, 0x65f},   {0x670, 0x670},   {0x6d6, 0x6dc},   {0x6df, 0x6e4},     {0x6e7, 0x6e8},
    {0x6ea, 0x6ed},    {0x900, 0x903},   {0x93a, 0x93c},   {0x93e, 0x94f},   {0x951, 0x957},     {0x962, 0x963},
    {0x981, 0x983},    {0x9bc, 0x9bc},   {0x9be, 0x9cd},   {0xa3c, 0xa51},   {0xabc, 0xabc},     {0xabe, 0xacd},
    {0xb3c, 0xb3c},    {0xb3e, 0xb57},   {0xbbe, 0xbcd},   {0xc3e, 0xc56},   {0xcbe, 0xcd6},     {0xd3e, 0xd4d},
    {0xe31, 0xe31},    {0xe34, 0xe3a},   {0xe47, 0xe4e},   {0xeb1, 0xeb1},   {0xeb4, 0xebc},     {0xec8, 0xecd},
    {0x102b, 0x103e},  {0x17b4, 0x17d3}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {kJoiner, kJoiner}, {0x20d0, 0x20ff},
    {0x302a, 0x302f},  {0x3099, 0x309a}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0x1f3fb, 0x1f3ff}, {0xe0020, 0xe007f},
    {0xe0100, 0xe01ef}};

bool is_mark(char32_t c) {
  if (c < 0x300) return false;
  const auto* const range = std::ranges::lower_bound(kMarks, c, {}, &std::pair<char32_t, char32_t>::second);
  return range != std::end(kMarks) && c >= range->first;
}

/// Where the code point before `at` begins.
std::size_t previous_code_point(std::string_view text, std::size_t at) {
  for (std::size_t back = 1; back <= 4 && back <= at; ++back) {
    const Utf8Char c = decode_utf8(text, at - back);
    if (c.valid && c.length == back) return at - back;
  }
  return at - 1;
}

/// 0 for a byte that is none.
char32_t code_point(std::string_view text, std::size_t at) {
  const Utf8Char c = decode_utf8(text, at);
  return c.valid ? c.code_point : 0;
}

enum class WordClass { blank, word, mark };

WordClass class_of(char32_t c) {
  if (c == ' ' || c == '\t' || c == '\n' || c == 0xa0 || c == 0x3000) return WordClass::blank;
  if (c < 0x80) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    return letter ? WordClass::word : WordClass::mark;
  }
  const bool punctuation = (c >= 0x2010 && c <= 0x205e) || (c >= 0x3001 && c <= 0x3003) ||
                           (c >= 0x3008 && c <= 0x301f) || (c >= 0xff01 && c <= 0xff0f);
  return punctuation ? WordClass::mark : WordClass::word;
}

WordClass class_at(std::string_view text, std::size_t at) { return class_of(code_point(text, at)); }

std::size_t word_right(std::string_view text, std::size_t at) {
  while (at < text.size() && class_at(text, at) == WordClass::blank) at = next_character(text, at);
  if (at == text.size()) return at;
  const WordClass run = class_at(text, at);
  while (at < text.size() && class_at(text, at) == run) at = next_character(text, at);
  return at;
}

std::size_t word_left(std::string_view text, std::size_t at) {
  const auto before = [&] { return class_at(text, previous_character(text, at)); };
  while (at > 0 && before() == WordClass::blank) at = previous_character(text, at);
  if (at == 0) return 0;
  const WordClass run = before();
  while (at > 0 && before() == run) at = previous_character(text, at);
  return at;
}

}  // namespace

std::size_t next_character(std::string_view text, std::size_t at) {
  char32_t last = code_point(text, at);
  at += decode_utf8(text, at).length;
  if (last == '\n') return at;
  while (at < text.size()) {
    const char32_t c = code_point(text, at);
    if (!is_mark(c) && (last != kJoiner || c < 0x80)) break;
    last = c;
    at += decode_utf8(text, at).length;
  }
  return at;
}

std::size_t previous_character(std::string_view text, std::size_t at) {
  // Back to what is no mark and does not follow a joiner, which is where next_character() would stop.
  std::size_t begin = previous_code_point(text, at);
  while (begin > 0) {
    const std::size_t before = previous_code_point(text, begin);
    const char32_t c = code_point(text, begin), last = code_point(text, before);
    if (last == '\n' || (!is_mark(c) && (last != kJoiner || c < 0x80))) break;
    begin = before;
  }
  return begin;
}

std::pair<std::size_t, std::size_t> TextModel::selection() const { return std::minmax(caret_, anchor_); }

std::string_view TextModel::selected() const {
  const auto [from, to] = selection();
  return std::string_view(text_).substr(from, to - from);
}

void TextModel::set_text(std::string text) {
  if (text == text_) return;
  // What grows at its end is not laid out anew.
  const auto differs = std::mismatch(text_.begin(), text_.end(), text.begin(), text.end()).first;
  const auto same = static_cast<std::size_t>(differs - text_.begin());
  edits_.push_back({same, text_.size() - same, text.size() - same});
  text_ = std::move(text);
  undo_.clear(), redo_.clear(), undo_bytes_ = 0;
  const std::size_t at = caret_;
  place(at, false);
}

// ------------------------------------------------------------------------------------------------ editing

std::string TextModel::cleaned(std::string_view utf8) const {
  std::string clean;
  clean.reserve(utf8.size());
  for (std::size_t at = 0; at < utf8.size();) {
    const Utf8Char c = decode_utf8(utf8, at);
    const char32_t point = c.valid ? c.code_point : 0xfffd;
    if (point == '\r') {
      if (at + 1 == utf8.size() || utf8[at + 1] != '\n') clean += lines_ == Lines::one ? ' ' : '\n';
    } else if (point == '\n') {
      clean += lines_ == Lines::one ? ' ' : '\n';
    } else if (point == '\t' || (point >= 0x20 && point != 0x7f)) {
      append_utf8(clean, point);
    }
    at += c.length;
  }
  return clean;
}

// What stood apart may be one character now: a letter typed before an accent.
std::size_t TextModel::behind_character(std::size_t at) const {
  if (at == 0 || at >= text_.size()) return at;
  return std::max(at, next_character(text_, previous_character(text_, at)));
}

void TextModel::change(std::size_t at, std::size_t removed, std::string_view with) {
  text_.replace(at, removed, with);
  edits_.push_back({at, removed, with.size()});
}

// A word that is typed, a run of characters that is erased, is one step.
bool TextModel::joins(std::size_t from, std::size_t to, std::string_view with, Kind kind) const {
  if (undo_.empty() || kind == Kind::other || !undo_.back().open || undo_.back().kind != kind) return false;
  const Step& last = undo_.back();
  if (kind == Kind::erasing) return to == last.at || from == last.at;
  const bool new_word = !last.inserted.empty() &&
                        class_of(static_cast<unsigned char>(last.inserted.back())) == WordClass::blank &&
                        class_at(with, 0) != WordClass::blank;
  return from == to && from == last.at + last.inserted.size() && !new_word;
}

void TextModel::replace(std::size_t from, std::size_t to, std::string with, Kind kind) {
  if (from == to && with.empty()) return;
  redo_.clear();
  undo_bytes_ += (to - from) + with.size();
  const std::string removed = text_.substr(from, to - from);
  if (joins(from, to, with, kind)) {
    Step& last = undo_.back();
    if (kind == Kind::typing) {
      last.inserted += with;
    } else if (from == last.at) {
      last.removed += removed;
    } else {
      last.removed = removed + last.removed;
      last.at = from;
    }
  } else {
    undo_.push_back({from, removed, with, caret_, anchor_, kind, true});
    for (; undo_bytes_ > kMaxUndoBytes && undo_.size() > 1; undo_.pop_front()) undo_bytes_ -= undo_.front().bytes();
  }
  change(from, to - from, with);
  caret_ = anchor_ = behind_character(from + with.size());
}

void TextModel::insert(std::string_view utf8) {
  const auto [from, to] = selection();
  std::string with = cleaned(utf8);
  if (with.empty()) return;
  const bool typed = from == to && with.size() <= 4 && next_character(with, 0) == with.size();
  replace(from, to, std::move(with), typed ? Kind::typing : Kind::other);
}

void TextModel::erase_left() {
  const auto [from, to] = selection();
  if (from != to) return replace(from, to, "", Kind::other);
  if (caret_ > 0) replace(previous_character(text_, caret_), caret_, "", Kind::erasing);
}

void TextModel::erase_right() {
  const auto [from, to] = selection();
  if (from != to) return replace(from, to, "", Kind::other);
  if (caret_ < text_.size()) replace(caret_, next_character(text_, caret_), "", Kind::erasing);
}

void TextModel::erase_word_left() {
  const auto [from, to] = selection();
  replace(from == to ? word_left(text_, caret_) : from, to, "", Kind::other);
}

void TextModel::erase_word_right() {
  const auto [from, to] = selection();
  replace(from, from == to ? word_right(text_, caret_) : to, "", Kind::other);
}

bool TextModel::undo() {
  if (undo_.empty()) return false;
  Step step = std::move(undo_.back());
  undo_.pop_back();
  undo_bytes_ -= std::min(undo_bytes_, step.bytes());
  change(step.at, step.inserted.size(), step.removed);
  caret_ = behind_character(step.caret), anchor_ = behind_character(step.anchor);
  step.open = false;
  if (!undo_.empty()) undo_.back().open = false;
  redo_.push_back(std::move(step));
  return true;
}

bool TextModel::redo() {
  if (redo_.empty()) return false;
  Step step = std::move(redo_.back());
  redo_.pop_back();
  change(step.at, step.removed.size(), step.inserted);
  caret_ = anchor_ = behind_character(step.at + step.inserted.size());
  undo_bytes_ += step.bytes();
  undo_.push_back(std::move(step));
  return true;
}

// ------------------------------------------------------------------------------------------------ moving

void TextModel::place(std::size_t at, bool select) {
  at = std::min(at, text_.size());
  for (std::size_t back = 1; back < 4 && back <= at && at < text_.size(); ++back) {
    const Utf8Char c = decode_utf8(text_, at - back);
    if (c.valid && c.length > back) at -= back;  // and no character begins before that one and reaches into it
  }
  if (at > 0 && at < text_.size()) {
    const std::size_t begin = previous_character(text_, at), end = next_character(text_, begin);
    if (end > at) at = begin;
  }
  caret_ = at;
  if (!select) anchor_ = at;
  if (!undo_.empty()) undo_.back().open = false;
}

void TextModel::move_left(bool select) {
  const auto [from, to] = selection();
  if (!select && from != to) return place(from, false);
  place(caret_ > 0 ? previous_character(text_, caret_) : 0, select);
}

void TextModel::move_right(bool select) {
  const auto [from, to] = selection();
  if (!select && from != to) return place(to, false);
  place(caret_ < text_.size() ? next_character(text_, caret_) : caret_, select);
}

void TextModel::move_word_left(bool select) { place(word_left(text_, caret_), select); }
void TextModel::move_word_right(bool select) { place(word_right(text_, caret_), select); }

void TextModel::select_all() {
  place(0, false);
  place(text_.size(), true);
}

void TextModel::select_word(std::size_t at) {
  place(at, false);
  if (text_.empty()) return;
  // A click after the last character of a line means that character.
  std::size_t begin = caret_;
  if (begin > 0 && (begin == text_.size() || text_[begin] == '\n')) begin = previous_character(text_, begin);
  std::size_t end = begin;
  const WordClass run = class_at(text_, begin);
  const auto same = [&](std::size_t i) { return class_at(text_, i) == run && text_[i] != '\n'; };
  while (end < text_.size() && same(end)) end = next_character(text_, end);
  while (begin > 0 && same(previous_character(text_, begin))) begin = previous_character(text_, begin);
  place(begin, false);
  place(end, true);
}

void TextModel::select_paragraph(std::size_t at) {
  at = std::min(at, text_.size());
  const std::size_t before = at == 0 ? std::string::npos : text_.rfind('\n', at - 1), after = text_.find('\n', at);
  place(before == std::string::npos ? 0 : before + 1, false);
  place(after == std::string::npos ? text_.size() : after + 1, true);
}

}  // namespace kvscope::views
