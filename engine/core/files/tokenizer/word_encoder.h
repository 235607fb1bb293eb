#pragma once
// Words to ids: byte-level BPE, with the words already seen remembered.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/core/files/tokenizer/bpe.h"

namespace kvscope {

/// What BPE needs of a vocabulary.
struct BpeModel {
  std::int32_t byte_ids[256];  // the token of every single byte
  MergeTable merges;
  bool ignore_merges = false;                           // a word that is a token is that token, whatever the merges say
  std::unordered_map<std::string, std::int32_t> words;  // only with ignore_merges: token's bytes -> id
};

/// Encodes the words of one text, in order. The text must outlive it: words are remembered by where they stand.
class WordEncoder {
 public:
  /// `text_bytes` sizes the memory. Ids are appended to `out`, which nobody else may shorten meanwhile.
  WordEncoder(const BpeModel& model, std::size_t text_bytes, std::vector<std::int32_t>& out);
  void add(std::string_view word);

 private:
  struct Seen {
    std::string_view word;
    std::uint32_t at = 0, count = 0;  // its ids are out_[at, at + count)
  };
  void encode(std::string_view word);
  const BpeModel& model_;
  std::vector<std::int32_t>& out_;
  std::vector<Seen> seen_;  // direct-mapped by hash; a later word replaces
};

}  // namespace kvscope
