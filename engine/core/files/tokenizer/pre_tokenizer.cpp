#include "engine/core/files/tokenizer/pre_tokenizer.h"

#include "engine/core/files/tokenizer/unicode.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

struct Char {
  char32_t code_point = 0;
  CharClass kind = CharClass::other;
  std::size_t end = 0;  // where the next one begins; 0 at the end of the text
};

/// Reads characters of one piece by offset.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  Char at(std::size_t i) const {
    if (i >= text_.size()) return {};
    const auto byte = static_cast<unsigned char>(text_[i]);
    if (byte < 0x80) return {byte, char_class(byte), i + 1};
    const Utf8Char c = decode_utf8(text_, i);
    return {c.code_point, c.valid ? char_class(c.code_point) : CharClass::other, i + c.length};
  }
  /// Past the run of `kind` that begins at i, of at most `limit` characters.
  std::size_t run(std::size_t i, CharClass kind, int limit = -1) const {
    for (Char c = at(i); c.end && c.kind == kind && limit-- != 0; c = at(i)) i = c.end;
    return i;
  }
  std::size_t line_ends(std::size_t i, bool or_slashes = false) const {
    while (i < text_.size() && (is_line_end(text_[i]) || (or_slashes && text_[i] == '/'))) ++i;
    return i;
  }
  std::size_t size() const { return text_.size(); }
  static bool is_line_end(char32_t c) { return c == '\r' || c == '\n'; }

 private:
  std::string_view text_;
};

/// Past 's 't 're 've 'm 'll 'd at `begin`, or 0. Without case, a long s (U+017F) is an s too.
std::size_t contraction(const Cursor& text, bool any_case, std::size_t begin = 0) {
  if (text.at(begin).code_point != '\'') return 0;
  const auto letter = [&](const Char& c) -> char32_t {
    if (!any_case) return c.code_point;
    if (c.code_point == 0x17F) return 's';
    return c.code_point >= 'A' && c.code_point <= 'Z' ? c.code_point + ('a' - 'A') : c.code_point;
  };
  const Char first = text.at(begin + 1);
  const char32_t a = letter(first);
  if (first.end == 0) return 0;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return first.end;
  const Char second = text.at(first.end);
  const char32_t b = letter(second);
  const bool two = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
  return two ? second.end : 0;
}

/// \s+(?!\S)|\s+ : all of the run if the text ends with it, else all but its last character, which goes with the word
/// that follows; a single one stays alone.
std::size_t white_space(const Cursor& text, Char first) {
  std::size_t last = 0, end = first.end;
  for (Char c = text.at(end); c.end && c.kind == CharClass::space; c = text.at(end)) {
    last = end;
    end = c.end;
  }
  return end == text.size() || last == 0 ? end : last;
}

/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t gpt2_word(const Cursor& text) {
  if (const std::size_t end = contraction(text, false)) return end;
  const Char first = text.at(0);
  const Char start = first.code_point == ' ' ? text.at(1) : first;
  if (start.end && start.kind != CharClass::space) return text.run(start.end, start.kind);
  return white_space(text, first);
}

/// \s*[\r\n]+ : past the last line end of the white space at the start, or 0 if it has none.
std::size_t through_line_ends(const Cursor& text) {
  std::size_t end = 0, i = 0;
  for (Char c = text.at(0); c.end && c.kind == CharClass::space; c = text.at(i)) {
    i = c.end;
    if (Cursor::is_line_end(c.code_point)) end = i;
  }
  return end;
}

/// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max}|
/// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
std::size_t modern_word(const Cursor& text, int max_numbers) {
  if (const std::size_t end = contraction(text, true)) return end;
  const Char first = text.at(0);
  if (first.kind == CharClass::letter) return text.run(first.end, CharClass::letter);
  if (first.kind == CharClass::number) return text.run(0, CharClass::number, max_numbers);
  const Char second = text.at(first.end);
  if (second.end && second.kind == CharClass::letter && !Cursor::is_line_end(first.code_point)) {
    return text.run(second.end, CharClass::letter);
  }
  const Char start = first.code_point == ' ' ? second : first;
  if (start.end && start.kind == CharClass::other) return text.line_ends(text.run(start.end, CharClass::other));
  if (const std::size_t end = through_line_ends(text)) return end;
  return white_space(text, first);
}

/// Past [head]*[tail]+ at i (classes of word_part()), or 0. The run of heads gives back what [tail]+ needs: its last tail.
std::size_t capitals_then_tail(const Cursor& text, std::size_t i) {
  std::size_t end = i, after_tail = 0;
  Char c = text.at(i);
  for (; c.end && word_part(c.code_point).head; c = text.at(end)) {
    end = c.end;
    if (word_part(c.code_point).tail) after_tail = end;
  }
  if (!c.end || !word_part(c.code_point).tail) return after_tail;
  for (; c.end && word_part(c.code_point).tail; c = text.at(end)) end = c.end;
  return end;
}

/// Past [head]+[tail]* at i, or 0.
std::size_t capitals_and_tail(const Cursor& text, std::size_t i) {
  std::size_t end = i;
  Char c = text.at(i);
  for (; c.end && word_part(c.code_point).head; c = text.at(end)) end = c.end;
  if (end == i) return 0;
  for (; c.end && word_part(c.code_point).tail; c = text.at(end)) end = c.end;
  return end;
}

/// [^\r\n\p{L}\p{N}]?[head]*[tail]+|[^\r\n\p{L}\p{N}]?[head]+[tail]*|\p{N}{1,max}|
/// ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ , with_contractions: (?i:'s|'t|'re|'ve|'m|'ll|'d)? after the first two
std::size_t cased_word(const Cursor& text, int max_numbers, bool with_contractions) {
  const Char first = text.at(0);
  const bool may_lead =
      first.kind != CharClass::letter && first.kind != CharClass::number && !Cursor::is_line_end(first.code_point);
  for (const auto word : {capitals_then_tail, capitals_and_tail}) {
    std::size_t end = may_lead ? word(text, first.end) : 0;
    if (end == 0) end = word(text, 0);
    if (end == 0) continue;
    const std::size_t past = with_contractions ? contraction(text, true, end) : 0;
    return past > 0 ? past : end;
  }
  if (first.kind == CharClass::number) return text.run(0, CharClass::number, max_numbers);
  const Char start = first.code_point == ' ' ? text.at(first.end) : first;
  if (start.end && start.kind == CharClass::other) return text.line_ends(text.run(start.end, CharClass::other), true);
  if (const std::size_t end = through_line_ends(text)) return end;
  return white_space(text, first);
}

}  // namespace

std::string_view pattern_text(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::gpt2:
      return {};
    case SplitPattern::qwen2:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case SplitPattern::llama3:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case SplitPattern::tekken:
      return R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case SplitPattern::o200k:
      return R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  return {};
}

std::size_t word_length(SplitPattern pattern, std::string_view text) {
  const Cursor cursor(text);
  if (pattern == SplitPattern::gpt2) return gpt2_word(cursor);
  if (pattern == SplitPattern::tekken) return cased_word(cursor, 1, false);
  if (pattern == SplitPattern::o200k) return cased_word(cursor, 3, true);
  return modern_word(cursor, pattern == SplitPattern::llama3 ? 3 : 1);
}

std::size_t piece_length(DigitPieces digits, std::string_view text) {
  if (digits == DigitPieces::none) return text.size();
  const auto is_number_at = [text](std::size_t at, std::size_t& end) {
    const Utf8Char c = decode_utf8(text, at);
    end = at + c.length;
    return c.valid && is_numeric(c.code_point);
  };
  std::size_t end = 0;
  const bool numbers = is_number_at(0, end);
  if (numbers && digits == DigitPieces::single) return end;
  for (std::size_t next = end; end < text.size() && is_number_at(end, next) == numbers;) end = next;
  return end;
}

}  // namespace kvscope
