#pragma once
// A vocabulary and its merges as the encoder needs them.

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/core/files/tokenizer/bpe.h"
#include "engine/core/files/tokenizer/token_ids.h"
#include "engine/core/files/tokenizer/tokenizer_json.h"

namespace kvscope {

/// What BPE needs of a vocabulary. A word begins as the tokens of its symbols: its bytes, or its characters and, where
/// one has no token, its bytes; -1 where there is none.
struct BpeModel {
  std::int32_t byte_ids[256];  // of bytes: "a"; of characters: <0x61>
  bool of_characters = false;
  std::vector<std::int32_t> char_ids;  // by code point, as far as there are any
  std::int32_t unknown = -1;           // stands for a symbol without a token
  bool fuse_unknown = false;           // one for several in a row
  bool every_byte = false;             // byte_ids has no -1
  MergeTable merges;
  /// Of characters: a word may begin at any U+2581 but after one that ends with one of these bytes, which a merge puts
  /// before it (Gemma 3: ">" with "\u2581</"). Nothing if words do not begin with marks at all.
  std::optional<std::bitset<256>> before_marks;
  bool ignore_merges = false;                           // a word that is a token is that token, whatever the merges say
  std::unordered_map<std::string, std::int32_t> words;  // only with ignore_merges: what the token encodes -> id
};

/// Throws Error (bad input) naming `file` for merges of no tokens, and if the package would drop a symbol without a word.
BpeModel make_bpe_model(const TokenizerJson& spec, const TokenIds& ids, const std::string& file);

}  // namespace kvscope
