#pragma once
// Tokens by their text.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvscope {

/// Of bytes that may be anything; the same in every run.
std::uint64_t hash_of(std::string_view bytes);

/// Ids by token, as the file writes tokens: open addressing over the vocabulary, which must outlive it. Gemma 3 looks up
/// 1.5 million tokens while its merges are read; std::unordered_map took twice the time of the whole file for that.
class TokenIds {
 public:
  using Vocab = std::vector<std::pair<std::string, std::int32_t>>;
  /// Throws Error (bad input) naming `file` for an id twice. Every token must be there once.
  TokenIds(const Vocab& vocab, const std::string& file);
  /// -1 if there is no such token.
  std::int32_t find(std::string_view token) const;
  bool contains(std::string_view token) const { return find(token) >= 0; }
  std::size_t size() const { return vocab_.size(); }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t entry = -1;  // of the vocabulary
  };
  const Vocab& vocab_;
  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
};

}  // namespace kvscope
