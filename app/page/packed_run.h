#pragma once
// What of a run goes into a page as numbers: arrays that JavaScript reads as typed arrays.

#include <string>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope::app {

/// Rows of layer, KV head and then token or query, the last index the fastest; elements are little-endian.
struct PackedArray {
  std::string name;  // "evict_at"
  std::string type;  // "Uint16": JavaScript's Uint16Array
  int columns = 0;   // tokens, or queries that the oracle has seen
  std::string bytes;
};

/// As lifetimes have them, in 16 bits.
inline constexpr std::uint16_t kPackedNever = 65535, kPackedUndecided = 65534;

/// A page may have so many tokens in a run of `n_heads` KV heads: a browser draws each of them, and holds each lifetime.
int most_page_tokens(int n_heads);

/// The arrays of a run, of at most most_page_tokens():
///
///     evict_at   Uint16 [layer][KV head][token]   with kPackedNever and kPackedUndecided
///     verdict    Uint8  [layer][KV head][token]   verdict_code() of the eviction        only with an oracle
///     hits       Uint16 [layer][KV head][query]   |P and O| of OracleCounts             only with an oracle
///     capacity   Uint16 [layer][KV head][query]   |O|; 0 where nothing was chosen       only with an oracle
std::vector<PackedArray> packed_arrays(const RunRecord& run);

/// zlib's format, as a browser's DecompressionStream("deflate") reads it.
std::string deflated(const std::string& bytes);

}  // namespace kvscope::app
