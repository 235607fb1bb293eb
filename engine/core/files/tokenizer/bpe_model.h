#pragma once
// A vocabulary and its merges as the encoder needs them.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/core/files/tokenizer/bpe.h"
#include "engine/core/files/tokenizer/tokenizer_json.h"

namespace kvscope {

/// Tokens as the file writes them.
using TokenIds = std::unordered_map<std::string_view, std::int32_t>;

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
  bool words_begin_with_marks = false;                  // of characters: no merge puts U+2581 after another character
  bool ignore_merges = false;                           // a word that is a token is that token, whatever the merges say
  std::unordered_map<std::string, std::int32_t> words;  // only with ignore_merges: what the token encodes -> id
};

/// Ids by token; `spec` must outlive them. Throws Error (bad input) naming `file` for an id twice.
TokenIds token_ids(const TokenizerJson& spec, const std::string& file);
/// Throws Error (bad input) naming `file` for merges of no tokens, and if the package would drop a symbol without a word.
BpeModel make_bpe_model(const TokenizerJson& spec, const TokenIds& ids, const std::string& file);

}  // namespace kvscope
