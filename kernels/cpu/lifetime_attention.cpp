#include "kernels/lifetime_attention.h"

#include <algorithm>
#include <vector>

#include "kernels/argument_check.h"
#include "kernels/cpu/online_softmax.h"
#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kQueryTile = 32;
constexpr int kKeyTile = 64;

/// kQueryTile queries of one head against all keys that any of them sees.
class QueryTile {
 public:
  QueryTile(const LifetimeAttentionArgs& args, int head, std::int64_t first_row)
      : args_(args),
        head_(head),
        kv_head_(head / (args.n_heads / args.n_kv_heads)),
        first_row_(first_row),
        n_(static_cast<int>(std::min<std::int64_t>(kQueryTile, args.q_len - first_row))),
        evict_at_(args.evict_at ? args.evict_at + kv_head_ * args.kv_len : nullptr),
        position_(args.k_position ? args.k_position + kv_head_ * args.kv_len : nullptr),
        q_(static_cast<std::size_t>(kQueryTile) * args.head_dim),
        rows_(static_cast<std::size_t>(kKeyTile) * args.head_dim),
        k_columns_(rows_.size()),
        logits_(kQueryTile * kKeyTile),
        o_(q_.size(), 0.0f) {
    std::fill_n(softmax_, n_, OnlineSoftmax::of_sink(args.variant, head));
    for (int i = 0; i < n_; ++i) {
      copy_floats(args.q, ((first_row + i) * args.n_heads + head) * args.head_dim, args.head_dim, args.dtype,
                  q_.data() + i * args.head_dim);
    }
  }

  /// Gathers the keys that some query of the tile sees, a tile of them at a time: rows nobody sees are not read.
  void attend() {
    const std::int64_t first = args_.q_start + first_row_, last = first + n_ - 1;
    const std::int64_t end = position_ ? args_.kv_len : last + 1;
    std::int64_t keys[kKeyTile];
    int n_keys = 0;
    for (std::int64_t i = 0; i < end; ++i) {
      const std::int64_t t = position(i);
      if (t > last || (evict_at_ && evict_at_[i] <= std::max(first, t))) continue;
      keys[n_keys++] = i;
      if (n_keys == kKeyTile) {
        absorb(keys, n_keys);
        n_keys = 0;
      }
    }
    if (n_keys > 0) absorb(keys, n_keys);
    write();
  }

 private:
  std::int64_t position(std::int64_t i) const { return position_ ? position_[i] : i; }

  void gather(const void* data, const std::int64_t* keys, int n_keys) {
    const std::int64_t head_at = kv_head_ * head_stride(args_), stride = token_stride(args_);
    for (int j = 0; j < n_keys; ++j) {
      copy_floats(data, head_at + keys[j] * stride, args_.head_dim, args_.dtype, rows_.data() + j * args_.head_dim);
    }
  }

  void absorb(const std::int64_t* keys, int n_keys) {
    const int head_dim = args_.head_dim;
    gather(args_.k, keys, n_keys);
    transpose(rows_.data(), n_keys, head_dim, k_columns_.data(), kKeyTile);
    multiply(q_.data(), head_dim, k_columns_.data(), kKeyTile, logits_.data(), kKeyTile, n_, head_dim, kKeyTile, false);
    gather(args_.v, keys, n_keys);
    for (int i = 0; i < n_; ++i) {
      float* logits = logits_.data() + i * kKeyTile;
      mask(logits, args_.q_start + first_row_ + i, keys, n_keys);
      scale(o_.data() + i * head_dim, softmax_[i].absorb(logits, n_keys), head_dim);
    }
    multiply(logits_.data(), kKeyTile, rows_.data(), head_dim, o_.data(), head_dim, n_, n_keys, head_dim, true);
  }

  void mask(float* logits, std::int64_t q, const std::int64_t* keys, int n_keys) const {
    make_scores(logits, args_.scale, args_.variant.soft_cap, n_keys);
    for (int j = 0; j < n_keys; ++j) {
      if (position(keys[j]) > q || (evict_at_ && q >= evict_at_[keys[j]])) logits[j] = -INFINITY;
    }
  }

  void write() {
    for (int i = 0; i < n_; ++i) {
      const std::int64_t row = first_row_ + i;
      float* o = o_.data() + i * args_.head_dim;
      scale(o, softmax_[i].normaliser(), args_.head_dim);
      store(o, args_.o, (row * args_.n_heads + head_) * args_.head_dim, args_.head_dim, args_.dtype);
      if (args_.lse) args_.lse[head_ * args_.q_len + row] = softmax_[i].lse();
    }
  }

  const LifetimeAttentionArgs& args_;
  int head_;
  int kv_head_;
  std::int64_t first_row_;
  int n_;
  const std::int32_t* evict_at_;  // [kv_len] of this head, or null
  const std::int32_t* position_;  // likewise
  std::vector<float> q_;          // [kQueryTile, head_dim]
  std::vector<float> rows_;       // [kKeyTile, head_dim] keys, then values
  std::vector<float> k_columns_;  // [head_dim, kKeyTile]
  std::vector<float> logits_;     // [kQueryTile, kKeyTile]
  std::vector<float> o_;          // [kQueryTile, head_dim]
  OnlineSoftmax softmax_[kQueryTile];
};

}  // namespace

void lifetime_attention(const LifetimeAttentionArgs& args) {
  if (args.head_dim % 8 != 0) refuse("lifetime_attention", "head_dim", args.head_dim, "a multiple of 8");
  const std::int64_t n_tiles = (args.q_len + kQueryTile - 1) / kQueryTile;
  const std::int64_t cost = 2L * kQueryTile * args.kv_len * args.head_dim;
  parallel_for(n_tiles * args.n_heads, cost, [&](std::int64_t i) {
    // The last queries see the most keys: taken first, no thread is left alone with a long tile at the end.
    const std::int64_t tile = n_tiles - 1 - i / args.n_heads;
    QueryTile(args, static_cast<int>(i % args.n_heads), tile * kQueryTile).attend();
  });
}

}  // namespace kvscope::kernels::cpu
