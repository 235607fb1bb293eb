#pragma once
// How decode_attention deals slots out to blocks. Apart from the .cu, since a build without CUDA answers
// decode_attention_scratch_floats() too.

namespace kvscope::kernels {

constexpr int kDecodeTile = 64;       // slots that a block takes at a time
constexpr int kMaxDecodeSplits = 64;  // times the KV heads: enough blocks to fill a large GPU

/// Floats at the start of scratch that count who has finished; what follows stays a multiple of 16 bytes.
constexpr int decode_counter_floats(int n_heads) { return (n_heads + 3) / 4 * 4; }

/// Blocks per KV head for a cache that can hold `capacity` slots a head.
constexpr int decode_splits(int capacity) {
  const int n_tiles = (capacity + kDecodeTile - 1) / kDecodeTile;
  return n_tiles < kMaxDecodeSplits ? n_tiles : kMaxDecodeSplits;
}

}  // namespace kvscope::kernels
