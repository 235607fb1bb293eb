#pragma once
// The keys that some query of a block sees, tile by tile: evicted ones cost a comparison, no row of memory and no
// product. This is what makes the work S (budget + tile) where skipping whole tiles of scattered survivors saves
// nothing.

#include <climits>

#include "kernels/lifetime_attention.h"

namespace kvscope::kernels {

constexpr int kKeyTile = 64;    // keys of a tile at most
constexpr int kScanKeys = 256;  // keys looked at together
constexpr int kKeyRing = 512;   // >= two tiles in use + one not full + kScanKeys; a power of two

/// In shared memory: the visible keys found and not yet used, in the order of their index.
struct KeyRing {
  int index[kKeyRing];
  int position[kKeyRing];
  int evict_at[kKeyRing];
  int count[kScanKeys / 32];  // of the groups of 32 keys of a scan
};

/// What the search needs; the same for all threads of a block.
struct KeySource {
  const std::int32_t* position;  // of this head's keys, null: key i is position i
  const std::int32_t* evict_at;  // likewise, null: never
  int end;                       // one past the last key to look at
  int first_q, last_q;           // positions of the block's queries
};

/// A tile of keys: entries first ... first + n - 1 of the ring, counted without wrapping.
struct KeyTile {
  int first, n;
  __device__ int entry(int i) const { return (first + i) & (kKeyRing - 1); }
};

/// Finds keys, kKeys at a time. All kThreads threads of the block (at most kScanKeys) keep the same copy of it and call
/// together.
template <int kThreads, int kKeys = kKeyTile>
class KeyScan {
 public:
  __device__ KeyScan(const KeySource& source, KeyRing* ring) : source_(source), ring_(ring) {}

  /// The next tile; n = 0 at the end. Entries may be read by every thread after the next barrier.
  __device__ KeyTile next() {
    while (found_ - used_ < kKeys && scanned_ < source_.end) scan();
    const KeyTile tile = {used_, min(kKeys, found_ - used_)};
    used_ += tile.n;
    return tile;
  }

 private:
  static constexpr int kPerThread = kScanKeys / kThreads;
  static_assert(kKeys <= kKeyTile && kScanKeys % kThreads == 0);

  __device__ void scan() {
    int position[kPerThread], evict_at[kPerThread];
    unsigned seen[kPerThread];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
      const int i = scanned_ + u * kThreads + static_cast<int>(threadIdx.x);
      position[u] = INT_MAX;
      evict_at[u] = INT_MAX;
      if (i < source_.end) {
        position[u] = source_.position ? source_.position[i] : i;
        if (source_.evict_at) evict_at[u] = source_.evict_at[i];
      }
    }
#pragma unroll
    for (int u = 0; u < kPerThread; ++u) {
      const bool visible = position[u] <= source_.last_q && evict_at[u] > max(source_.first_q, position[u]);
      seen[u] = __ballot_sync(0xffffffffu, visible);
      if (lane == 0) ring_->count[u * (kThreads / 32) + warp] = __popc(seen[u]);
    }
    __syncthreads();
    int before = found_;
#pragma unroll
    for (int group = 0; group < kScanKeys / 32; ++group) {
      const int u = group / (kThreads / 32);
      if (group % (kThreads / 32) == warp && (seen[u] >> lane & 1) != 0) {
        const int entry = (before + __popc(seen[u] & ((1u << lane) - 1))) & (kKeyRing - 1);
        ring_->index[entry] = scanned_ + u * kThreads + static_cast<int>(threadIdx.x);
        ring_->position[entry] = position[u];
        ring_->evict_at[entry] = evict_at[u];
      }
      before += ring_->count[group];
    }
    found_ = before;
    scanned_ += kScanKeys;
    __syncthreads();  // entries are written, counts have been read
  }

  KeySource source_;
  KeyRing* ring_;
  int scanned_ = 0, found_ = 0, used_ = 0;
};

}  // namespace kvscope::kernels
