#include "engine/core/files/tokenizer/token_ids.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/core/support/refuse.h"

namespace kvscope {

std::uint64_t hash_of(std::string_view bytes) {
  std::uint64_t h = bytes.size() * 0x9E3779B97F4A7C15u;
  while (!bytes.empty()) {
    std::uint64_t chunk = 0;
    const std::size_t n = std::min<std::size_t>(bytes.size(), 8);
    std::memcpy(&chunk, bytes.data(), n);
    h = (std::rotl(h, 23) ^ chunk) * 0xD6E8FEB86659FD93u;
    bytes.remove_prefix(n);
  }
  return h ^ h >> 32;
}

TokenIds::TokenIds(const Vocab& vocab, const std::string& file)
    : vocab_(vocab), slots_(std::bit_ceil(std::max<std::size_t>(vocab.size() * 2, 16))), mask_(slots_.size() - 1) {
  std::vector<bool> taken;
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    const auto& [token, id] = vocab[i];
    if (taken.size() <= static_cast<std::size_t>(id)) taken.resize(static_cast<std::size_t>(id) + 1);
    if (taken[id]) refuse(file, "model.vocab." + token, "id " + std::to_string(id) + " twice", "every id once");
    taken[id] = true;
    const std::uint64_t h = hash_of(token);
    std::size_t at = h & mask_;
    while (slots_[at].entry >= 0) at = (at + 1) & mask_;
    slots_[at] = {static_cast<std::uint32_t>(h), static_cast<std::int32_t>(i)};
  }
}

std::int32_t TokenIds::find(std::string_view token) const {
  const std::uint64_t h = hash_of(token);
  for (std::size_t at = h & mask_; slots_[at].entry >= 0; at = (at + 1) & mask_) {
    if (slots_[at].hash != static_cast<std::uint32_t>(h)) continue;
    const auto& [found, id] = vocab_[static_cast<std::size_t>(slots_[at].entry)];
    if (found == token) return id;
  }
  return -1;
}

}  // namespace kvscope
