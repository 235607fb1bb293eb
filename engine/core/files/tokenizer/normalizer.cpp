#include "engine/core/files/tokenizer/normalizer.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

struct CombiningRange {
  char32_t first, last;
  std::uint8_t combining_class;
};
struct Decomposition {
  char32_t code_point;
  char32_t parts[4];  // zeros at the end
};
struct Composition {
  char32_t first, second, composed;
};
#include "engine/core/files/tokenizer/nfc_tables.inc"

// Hangul syllables are arithmetic: leading consonant, vowel, optional trailing consonant.
constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTrail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTrails = 28, kSyllables = kLeads * kVowels * kTrails;
constexpr char32_t kEnd = 0x110000;

constexpr std::uint8_t kActive = 255;  // class 0, but decomposes or may compose with what stands before it

/// By code point: 0 for what is in form C wherever it stands, its combining class, or kActive.
std::vector<std::uint8_t> make_table() {
  std::vector<std::uint8_t> table(kEnd, 0);
  for (const Composition& c : kCompositions) table[c.second] = kActive;
  const std::vector<std::uint8_t> seconds = table;
  for (const Decomposition& d : kDecompositions) table[d.code_point] = kActive;
  // One that decomposes and composes back again stands still, unless its first part may go with what is before it.
  for (const Composition& c : kCompositions) {
    if (seconds[c.composed] == 0 && seconds[c.first] == 0) table[c.composed] = 0;
  }
  for (char32_t c = 0; c < kVowels; ++c) table[kVowel + c] = kActive;
  for (char32_t c = 1; c < kTrails; ++c) table[kTrail + c] = kActive;
  for (const CombiningRange& r : kCombiningRanges) {
    for (char32_t c = r.first; c <= r.last; ++c) table[c] = r.combining_class;
  }
  return table;
}

std::uint8_t property(char32_t c) {
  static const std::vector<std::uint8_t> table = make_table();
  return table[c];
}

std::uint8_t combining_class(char32_t c) { return property(c) == kActive ? 0 : property(c); }

void append_decomposed(std::vector<char32_t>& out, char32_t c) {
  if (c - kSyllable < kSyllables) {
    const char32_t i = c - kSyllable;
    out.push_back(kLead + i / (kVowels * kTrails));
    out.push_back(kVowel + i / kTrails % kVowels);
    if (i % kTrails != 0) out.push_back(kTrail + i % kTrails);
    return;
  }
  const auto it = std::lower_bound(std::begin(kDecompositions), std::end(kDecompositions), c,
                                   [](const Decomposition& d, char32_t value) { return d.code_point < value; });
  if (it == std::end(kDecompositions) || it->code_point != c) return out.push_back(c);
  for (const char32_t part : it->parts) {
    if (part != 0) out.push_back(part);
  }
}

/// Marks between two characters of class 0 in the order of their classes; equal classes keep their order.
void order_marks(std::vector<char32_t>& text) {
  for (auto at = text.begin(); at != text.end();) {
    if (combining_class(*at) == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(at, text.end(), [](char32_t c) { return combining_class(c) == 0; });
    std::stable_sort(at, end, [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

/// The composed character, or 0.
char32_t compose(char32_t first, char32_t second) {
  if (first - kLead < kLeads && second - kVowel < kVowels) {
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTrails;
  }
  if (first - kSyllable < kSyllables && (first - kSyllable) % kTrails == 0 && second - kTrail - 1 < kTrails - 1) {
    return first + (second - kTrail);
  }
  const auto before = [](const Composition& a, const Composition& b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
  };
  const Composition wanted{first, second, 0};
  const auto it = std::lower_bound(std::begin(kCompositions), std::end(kCompositions), wanted, before);
  return it != std::end(kCompositions) && !before(wanted, *it) ? it->composed : 0;
}

/// Joins each character with the last one of class 0, unless a mark between them is in the way.
void compose_all(std::vector<char32_t>& text) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t starter = kNone, kept = 0;
  int last_class = -1;  // of the last kept character after the starter; -1: the starter itself is the last
  for (const char32_t c : text) {
    const int k = combining_class(c);
    if (starter != kNone && last_class < k) {
      if (const char32_t composed = compose(text[starter], c)) {
        text[starter] = composed;
        continue;
      }
    }
    last_class = k;
    if (k == 0) {
      starter = kept;
      last_class = -1;
    }
    text[kept++] = c;
  }
  text.resize(kept);
}

void append_nfc(std::string& out, std::vector<char32_t>& text) {
  order_marks(text);
  compose_all(text);
  for (const char32_t c : text) append_utf8(out, c);
  text.clear();
}

bool is_active_at(std::string_view text, std::size_t i) {
  const Utf8Char c = decode_utf8(text, i);
  return c.valid && property(c.code_point) != 0;
}

/// Where the first character from `i` on that may change begins, or the text's size.
std::size_t first_active(std::string_view text, std::size_t i) {
  while (i < text.size()) {
    // Everything below U+0300 stands still; what follows begins with a byte of at least 0xCC.
    if (static_cast<unsigned char>(text[i]) < 0xCC) {
      ++i;
    } else if (is_active_at(text, i)) {
      return i;
    } else {
      i += decode_utf8(text, i).length;
    }
  }
  return i;
}

/// Where the valid character that ends at `end` begins, if it begins at `from` or later; else `end`.
std::size_t previous_char(std::string_view text, std::size_t from, std::size_t end) {
  for (std::size_t length = 1; length <= 4 && from + length <= end; ++length) {
    const Utf8Char c = decode_utf8(text.substr(0, end), end - length);
    if (c.valid && c.length == length) return end - length;
  }
  return end;
}

}  // namespace

bool is_surely_nfc(std::string_view text) { return first_active(text, 0) == text.size(); }

std::string to_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  std::vector<char32_t> changing;
  // What stands still divides the text: only from the last such character before an active one to the next such one can
  // anything change.
  std::size_t done = 0;
  for (std::size_t active = first_active(text, 0); active < text.size(); active = first_active(text, done)) {
    std::size_t i = previous_char(text, done, active);
    out += text.substr(done, i - done);
    do {
      const Utf8Char c = decode_utf8(text, i);
      if (!c.valid) break;
      append_decomposed(changing, c.code_point);
      i += c.length;
    } while (i < text.size() && (i <= active || is_active_at(text, i)));
    append_nfc(out, changing);
    done = i;
  }
  return out += text.substr(done);
}

}  // namespace kvscope
