#include "engine/core/files/tokenizer/word_encoder.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

constexpr std::size_t kLongestRemembered = 64, kShortWord = 48;

}  // namespace

WordEncoder::WordEncoder(const BpeModel& model, std::size_t text_bytes, std::vector<std::int32_t>& out)
    : model_(model),
      out_(out),
      seen_(std::clamp(std::bit_ceil(text_bytes / 4), std::size_t{16}, std::size_t{1} << 14)) {}

void WordEncoder::add(std::string_view word) {
  if (word.size() > kLongestRemembered || out_.size() > UINT32_MAX - word.size()) return encode(word);
  Seen& seen = seen_[hash_of(word) & (seen_.size() - 1)];
  if (seen.word == word) {
    const std::size_t at = out_.size();
    out_.resize(at + seen.count);
    std::copy_n(out_.begin() + seen.at, seen.count, out_.begin() + at);
    return;
  }
  const std::size_t at = out_.size();
  encode(word);
  seen = {word, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(out_.size() - at)};
}

/// Writes the tokens that a word begins as, at most one a byte; returns how many.
std::size_t WordEncoder::write_symbols(std::string_view word, std::span<std::int32_t> ids) const {
  if (model_.every_byte && !model_.of_characters) {
    for (std::size_t i = 0; i < word.size(); ++i) ids[i] = model_.byte_ids[static_cast<unsigned char>(word[i])];
    return word.size();
  }
  std::size_t n = 0;
  bool waits = false;  // an unknown token, for others to be one with: written when a known character comes, not a byte
  for (std::size_t i = 0, length = 0; i < word.size(); i += length) {
    const Utf8Char c = model_.of_characters ? decode_utf8(word, i) : Utf8Char{};
    length = c.length;
    const auto byte_id = [&](std::size_t k) { return model_.byte_ids[static_cast<unsigned char>(word[i + k])]; };
    const bool has_char = c.valid && c.code_point < model_.char_ids.size();
    const std::int32_t id = !model_.of_characters ? byte_id(0) : has_char ? model_.char_ids[c.code_point] : -1;
    std::size_t bytes = 0;
    while (id < 0 && bytes < length && byte_id(bytes) >= 0) ++bytes;
    if (id >= 0) {
      if (std::exchange(waits, false)) ids[n++] = model_.unknown;
      ids[n++] = id;
    } else if (bytes == length) {
      for (std::size_t k = 0; k < length; ++k) ids[n++] = byte_id(k);
    } else {
      if (waits && !model_.fuse_unknown) ids[n++] = model_.unknown;
      waits = true;
    }
  }
  if (waits) ids[n++] = model_.unknown;
  return n;
}

void WordEncoder::encode(std::string_view word) {
  if (model_.ignore_merges) {
    if (const auto it = model_.words.find(std::string(word)); it != model_.words.end())
      return out_.push_back(it->second);
  }
  const std::size_t at = out_.size();
  out_.resize(at + word.size());
  const std::span<std::int32_t> ids(out_.data() + at, word.size());
  const std::span<std::int32_t> symbols = ids.first(write_symbols(word, ids));
  const std::size_t n =
      symbols.size() <= kShortWord ? merge_by_scan(model_.merges, symbols) : merge_by_heap(model_.merges, symbols);
  out_.resize(at + n);
}

}  // namespace kvscope
