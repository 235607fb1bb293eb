#include "engine/core/files/tokenizer/byte_alphabet.h"

#include <array>

#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

constexpr char32_t kFirstMade = 0x100;  // made-up characters are U+0100 ... U+0143

struct Alphabet {
  std::array<char32_t, 256> chars{};
  std::array<int, 0x144> bytes{};  // -1: not in the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet a;
  for (int& b : a.bytes) b = -1;
  char32_t next = kFirstMade;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    a.chars[b] = printable ? static_cast<char32_t>(b) : next++;
    a.bytes[a.chars[b]] = b;
  }
  return a;
}
constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_char(unsigned char byte) { return kAlphabet.chars[byte]; }

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    const Utf8Char c = decode_utf8(token, i);
    if (!c.valid || c.code_point >= kAlphabet.bytes.size() || kAlphabet.bytes[c.code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.bytes[c.code_point]);
    i += c.length;
  }
  return bytes;
}

}  // namespace kvscope
