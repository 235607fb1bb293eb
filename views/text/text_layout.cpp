#include "views/text/text_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/support/utf8.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
constexpr int kTab = 4;  // blanks

/// Written without blanks: a line may break on both sides.
bool is_ideograph(char32_t c) {
  return c >= 0x2e80 && ((c >= 0x3041 && c <= 0x30ff) || (c >= 0x3400 && c <= 0x9fff) || (c >= 0xac00 && c <= 0xd7a3) ||
                         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x20000 && c <= 0x3fffd));
}

bool is_blank(char32_t c) { return c == ' ' || c == '\t' || c == 0x3000; }

}  // namespace

void TextLayout::reset(float width) {
  width_ = width;
  begins_.assign(1, 0);
  complete_ = false;
}

float TextLayout::behind(float x, char32_t point, bool valid) const {
  if (point == '\t') {
    const float stop = kTab * advances_->advance(' ', true);
    if (stop > 0) return (std::floor(x / stop + 1e-3f) + 1) * stop;
  }
  return x + advances_->advance(point, valid);
}

std::size_t TextLayout::next_line(std::string_view text, std::size_t begin) const {
  float x = 0;
  std::size_t last_break = kNone;  // where a word of this line begins
  for (std::size_t at = begin; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    const char32_t point = c.valid ? c.code_point : 0xfffd;
    if (point == '\n') return at + 1;
    const bool blank = is_blank(point), ideograph = is_ideograph(point);
    if (ideograph && at > begin) last_break = at;
    x = behind(x, point, c.valid);
    if (width_ > 0 && x > width_ && !blank && at > begin) {
      if (last_break != kNone) return last_break;
      // A word that is wider than the line: before the character that does not fit, never between letter and accent.
      const std::size_t character = previous_character(text, at + c.length);
      return character > begin ? character : next_character(text, begin);
    }
    at += c.length;
    if (blank || ideograph) last_break = at;
  }
  return kNone;
}

bool TextLayout::extend(std::string_view text, std::size_t bytes) {
  const std::size_t goal = begins_.back() + bytes;
  while (!complete_ && begins_.back() <= goal) {
    const std::size_t next = next_line(text, begins_.back());
    if (next == kNone || next > text.size()) {
      complete_ = true;
    } else {
      begins_.push_back(next);
    }
  }
  return !complete_;
}

void TextLayout::reach_offset(std::string_view text, std::size_t at) {
  while (!complete_ && begins_.back() <= at) extend(text, at - begins_.back());
}

void TextLayout::reach_line(std::string_view text, std::size_t line) {
  // One more than asked for: only the next line's begin tells where this one ends.
  while (!complete_ && begins_.size() < line + 2) extend(text, 0);
}

double TextLayout::estimated_lines(std::string_view text) const {
  const auto n = static_cast<double>(begins_.size());
  if (complete_ || begins_.back() == 0) return n;
  return n * std::max(1.0, static_cast<double>(text.size()) / static_cast<double>(begins_.back()));
}

void TextLayout::edited(std::string_view text, const TextEdit& edit) {
  if (!complete_ && edit.at > begins_.back()) {
    // Not laid out as yet, but a word there may be what did not fit on the lines before.
    begins_.resize(begins_.size() > 2 ? begins_.size() - 2 : 1);
    return;
  }
  const std::size_t line = line_of(text, edit.at);
  const auto shift = static_cast<std::ptrdiff_t>(edit.inserted) - static_cast<std::ptrdiff_t>(edit.removed);
  // The line before may take in a word that has become shorter, and the one before that a word of which what is too much
  // for it is too much for a line of its own.
  const std::size_t first = line > 2 ? line - 2 : 0;
  std::vector<std::size_t> fresh;
  // Lines after the edit, which may stay as they are.
  auto old = std::upper_bound(begins_.begin(), begins_.end(), edit.at + edit.removed);
  const auto shifted = [&](std::size_t begin) { return begin + static_cast<std::size_t>(shift); };
  std::size_t at = begins_[first];
  for (bool going = true; going;) {
    const std::size_t next = next_line(text, at);
    if (next == kNone) {
      old = begins_.end();
      complete_ = true;
      break;
    }
    while (old != begins_.end() && shifted(*old) < next) ++old;
    if (next > edit.at + edit.inserted && old != begins_.end() && shifted(*old) == next) break;
    // Past all that was laid out, the rest comes when it is asked for.
    going = complete_ || old != begins_.end() || next <= edit.at + edit.inserted;
    fresh.push_back(next);
    at = next;
  }
  std::vector<std::size_t> rest;
  for (; old != begins_.end(); ++old) rest.push_back(shifted(*old));
  begins_.resize(first + 1);
  begins_.insert(begins_.end(), fresh.begin(), fresh.end());
  begins_.insert(begins_.end(), rest.begin(), rest.end());
}

std::size_t TextLayout::end_of(std::string_view text, std::size_t line) const {
  if (line + 1 >= begins_.size()) return text.size();
  return ends_paragraph(text, line) ? begins_[line + 1] - 1 : begins_[line + 1];
}

bool TextLayout::ends_paragraph(std::string_view text, std::size_t line) const {
  return line + 1 >= begins_.size() || text[begins_[line + 1] - 1] == '\n';
}

std::size_t TextLayout::line_of(std::string_view text, std::size_t at, bool upstream) const {
  const auto behind = std::upper_bound(begins_.begin(), begins_.end(), at);
  const auto line = static_cast<std::size_t>(behind - begins_.begin()) - 1;
  if (upstream && line > 0 && begins_[line] == at && !ends_paragraph(text, line - 1)) return line - 1;
  return line;
}

float TextLayout::x_of(std::string_view text, std::size_t line, std::size_t at) const {
  float x = 0;
  for (std::size_t i = begins_[line]; i < at && i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    x = behind(x, c.valid ? c.code_point : 0xfffd, c.valid);
    i += c.length;
  }
  return x;
}

std::size_t TextLayout::offset_at(std::string_view text, std::size_t line, float x) const {
  float left = 0;
  const std::size_t end = end_of(text, line);
  for (std::size_t at = begins_[line]; at < end;) {
    const std::size_t next = std::min(next_character(text, at), end);
    float right = left;
    for (std::size_t i = at; i < next;) {
      const Utf8Char c = decode_utf8(text, i);
      right = behind(right, c.valid ? c.code_point : 0xfffd, c.valid);
      i += c.length;
    }
    if (x < (left + right) / 2) return at;
    left = right, at = next;
  }
  return end;
}

}  // namespace kvscope::views
