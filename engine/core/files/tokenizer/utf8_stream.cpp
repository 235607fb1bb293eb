#include "engine/core/files/tokenizer/utf8_stream.h"

#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

/// Bytes of the longest beginning of a valid character at text[at] (1 if there is none), and whether `text` ended
/// before it could be told invalid. Only for places where no valid character begins.
struct Beginning {
  std::size_t length = 1;
  bool cut = false;
};
Beginning beginning_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  const std::size_t full = first >= 0xC2 && first <= 0xDF   ? 2
                           : (first & 0xF0) == 0xE0         ? 3
                           : first >= 0xF0 && first <= 0xF4 ? 4
                                                            : 0;
  if (full == 0) return {};
  if (text.size() - at == 1) return {1, true};
  // The second byte's range excludes overlong forms, surrogates and what is past U+10FFFF.
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return {};
  std::size_t length = 2;
  while (length < full && at + length < text.size() && (byte(length) & 0xC0) == 0x80) ++length;
  return {length, at + length == text.size()};
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string out;
  std::size_t at = 0;
  while (at < pending_.size()) {
    const Utf8Char c = decode_utf8(pending_, at);
    if (c.valid) {
      out.append(pending_, at, c.length);
      at += c.length;
      continue;
    }
    const Beginning beginning = beginning_at(pending_, at);
    if (beginning.cut) break;
    out += kReplacement;
    at += beginning.length;
  }
  pending_.erase(0, at);
  return out;
}

std::string Utf8Stream::finish() {
  const bool waits = !pending_.empty();
  pending_.clear();
  return waits ? std::string(kReplacement) : std::string();
}

}  // namespace kvscope
