#pragma once
// Words to ids: BPE, with the words already seen remembered.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/core/files/tokenizer/bpe_model.h"

namespace kvscope {

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
  std::size_t write_symbols(std::string_view word, std::span<std::int32_t> ids) const;
  const BpeModel& model_;
  std::vector<std::int32_t>& out_;
  std::vector<Seen> seen_;  // direct-mapped by hash; a later word replaces
};

}  // namespace kvscope
