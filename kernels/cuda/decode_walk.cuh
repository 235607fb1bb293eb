#pragma once
// Which tiles of which heads a block of the split attention takes, and in which order.
//
// The tiles of a head are dealt out to n_used parts, a number that depends on this head alone: so a row among others gets
// the same sums. A row alone gives every part a block. Among others that would be thousands of blocks of 64 kB each, and
// starting and ending them takes as long as reading. So all parts lie in one line, head after head, and as many blocks as
// the device holds at once cut it into pieces of equal length. A block asks for the first tiles of the next part, or of
// the next head, while it still adds up the last one.

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/decode_attention.h"

namespace kvscope::kernels::mma_split {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kSlots = 16;  // of a tile: one page
// Of a part, unless it alone has a head: two a warp. Measured on an H200, Qwen3-8B shapes, ms per step of a sequence of
// 2,048 tokens, a block a part: 4 tiles 4.468; 8 tiles 4.462; 16 tiles 4.513; 32 tiles 4.654.
constexpr int kLeastTiles = 8;

struct Params {
  DecodeAttentionArgs args;
  unsigned* counter;  // [n_kv_heads * n_parts], zero between calls
  float* partial;     // [n_heads, n_splits, head_dim]: weighted sums
  float* softmax;     // [n_heads, n_splits, 2]: m (base 2), l
  int group_size;
  int n_parts;   // blocks that share a group
  int n_splits;  // parts of a head's tiles at most
};

/// Part p has the tiles p * kWarps + warp and every stride() after it.
struct HeadTiles {
  int n_slots;
  int n_tiles;  // at least one, which then is empty
  int n_used;

  __device__ HeadTiles(int slots, int n_splits)
      : n_slots(slots),
        n_tiles(max(1, (slots + kSlots - 1) / kSlots)),
        n_used(max(1, min(n_splits, (n_tiles + kLeastTiles - 1) / kLeastTiles))) {}
  __device__ int stride() const { return n_used * kWarps; }
  /// Parts count as if they had n_tiles / n_used tiles one after the other: the first that begins at `tile` or later.
  __device__ int part_from(int tile) const { return (min(max(tile, 0), n_tiles) * n_used + n_tiles - 1) / n_tiles; }
};

/// The rounds (a tile a warp) of the parts of the heads of a block. The heads of all rows are numbered through, once for
/// each of the blocks that share a group.
template <int kRows>
class Walk {
 public:
  using Rows = RowArgs<Params, kRows>;

  /// A block for each part, (part, head, row), or one piece of the line for each.
  __device__ static bool has_block_a_part() { return kRows == 1 || gridDim.z > 1; }

  /// To be called by all threads of the block.
  __device__ Walk(const Rows& rows, int n_rows)
      : rows_(rows), heads_of_row_(rows.row[0].args.cache.n_kv_heads * rows.row[0].n_parts), tiles_(0, 1) {
    n_heads_ = n_rows * heads_of_row_;
    if (has_block_a_part()) {
      head_ = blockIdx.z * heads_of_row_ + blockIdx.y;
      set_head(blockIdx.z, blockIdx.y);
      part_ = blockIdx.x;
      end_ = part_ + 1;
      first_ = part_ * kWarps;
      if (part_ >= tiles_.n_used) head_ = n_heads_;
      end_of_piece_ = 0;
    } else {
      find_piece();
      enter();
    }
  }

  __device__ bool is_done() const { return head_ >= n_heads_; }
  __device__ const Params& row() const { return rows_.of(row_); }
  __device__ int head() const { return head_of_row_; }  // of the row
  __device__ int kv_head() const { return head_of_row_ / row().n_parts; }
  __device__ const HeadTiles& tiles() const { return tiles_; }
  __device__ int part() const { return part_; }
  __device__ int tile(int warp) const { return first_ + warp; }
  __device__ bool has_tile(int warp) const { return tile(warp) < tiles_.n_tiles; }

  /// On to the next round of the part, part of the head; false if this block has none.
  __device__ bool next_round() { return (first_ += tiles_.stride()) < tiles_.n_tiles; }
  __device__ bool next_part() {
    first_ = ++part_ * kWarps;
    return part_ < end_;
  }
  __device__ void next_head() {
    before_ += tiles_.n_tiles;
    ++head_;
    enter();
  }

 private:
  __device__ HeadTiles tiles_of(int row, int head) const {
    const Params& p = rows_.of(row);
    return {p.args.cache.n_slots[head / p.n_parts], p.n_splits};
  }
  __device__ void set_head(int row, int head) {
    row_ = row;
    head_of_row_ = head;
    tiles_ = tiles_of(row, head);
  }
  __device__ int n_tiles_of(int head) const { return tiles_of(head / heads_of_row_, head % heads_of_row_).n_tiles; }

  /// At the head's first part of this block; a head may lie between two cuts and have none.
  __device__ void enter() {
    for (; head_ < n_heads_ && before_ < end_of_piece_; ++head_) {
      set_head(head_ / heads_of_row_, head_ % heads_of_row_);
      part_ = tiles_.part_from(begin_of_piece_ - before_);
      end_ = tiles_.part_from(end_of_piece_ - before_);
      first_ = part_ * kWarps;
      if (part_ < end_) return;
      before_ += tiles_.n_tiles;
    }
    head_ = n_heads_;
  }

  /// Each thread adds up the tiles of some heads; the one that finds the begin of this block's piece in them says where.
  __device__ void find_piece() {
    __shared__ int of_warp[kWarps];
    __shared__ int found_head, found_before;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int each = (n_heads_ + kThreads - 1) / kThreads;
    int head = threadIdx.x * each;
    int sum = 0;
    for (int h = head; h < min(head + each, n_heads_); ++h) sum += n_tiles_of(h);
    int before = sum;
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(kFullWarp, before, distance);
      if (lane >= distance) before += other;
    }
    if (lane == 31) of_warp[warp] = before;
    if (threadIdx.x == 0) found_head = n_heads_, found_before = 0;
    __syncthreads();
    before -= sum;
    int total = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) before += of_warp[w];
      total += of_warp[w];
    }
    const auto cut = [&](int block) {
      const int n_blocks = gridDim.x;
      return block * (total / n_blocks) + min(block, total % n_blocks);
    };
    begin_of_piece_ = cut(blockIdx.x);
    end_of_piece_ = cut(blockIdx.x + 1);
    if (before <= begin_of_piece_ && begin_of_piece_ < before + sum) {
      for (int n = 0; before + (n = n_tiles_of(head)) <= begin_of_piece_; ++head) before += n;
      found_head = head;
      found_before = before;
    }
    __syncthreads();
    head_ = found_head;
    before_ = found_before;
  }

  const Rows& rows_;
  int heads_of_row_, n_heads_;
  int head_, before_ = 0;  // tiles of the heads before this one
  int row_ = 0, head_of_row_ = 0;
  int begin_of_piece_ = 0, end_of_piece_ = 0;
  HeadTiles tiles_;
  int part_, end_;  // of this head in this block
  int first_;       // tile of the round
};

}  // namespace kvscope::kernels::mma_split
