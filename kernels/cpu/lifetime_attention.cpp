#include "kernels/lifetime_attention.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/online_softmax.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/cpu/vector.h"
#include "kernels/validate.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kQueryTile = 32;
constexpr int kKeyTile = 64;

/// `n` rows of one head out of [tokens, n_heads, head_dim], as contiguous floats.
void gather_rows(const void* data, std::int64_t first, int n, int head, int n_heads, int head_dim, DType dtype,
                 float* out) {
  for (int i = 0; i < n; ++i) {
    float* row = out + static_cast<std::int64_t>(i) * head_dim;
    const float* from = as_floats(data, ((first + i) * n_heads + head) * head_dim, head_dim, dtype, row);
    if (from != row) std::copy_n(from, head_dim, row);
  }
}

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
        q_(static_cast<std::size_t>(kQueryTile) * args.head_dim),
        rows_(static_cast<std::size_t>(kKeyTile) * args.head_dim),
        k_columns_(rows_.size()),
        logits_(kQueryTile * kKeyTile),
        o_(q_.size(), 0.0f) {
    gather_rows(args.q, first_row, n_, head, args.n_heads, args.head_dim, args.dtype, q_.data());
  }

  void attend() {
    const std::int64_t last = args_.q_start + first_row_ + n_ - 1;
    for (std::int64_t begin = 0; begin <= last; begin += kKeyTile) {
      const int n_keys = static_cast<int>(std::min<std::int64_t>(kKeyTile, last + 1 - begin));
      if (any_visible(begin, n_keys)) absorb(begin, n_keys);
    }
    write();
  }

 private:
  /// True if some query of the tile sees some key of [begin, begin + n_keys); all of them are <= the last query.
  bool any_visible(std::int64_t begin, int n_keys) const {
    if (!evict_at_) return true;
    const std::int64_t first = args_.q_start + first_row_;
    for (std::int64_t t = begin; t < begin + n_keys; ++t) {
      if (evict_at_[t] > std::max(first, t)) return true;
    }
    return false;
  }

  void absorb(std::int64_t begin, int n_keys) {
    const int head_dim = args_.head_dim;
    gather_rows(args_.k, begin, n_keys, kv_head_, args_.n_kv_heads, head_dim, args_.dtype, rows_.data());
    transpose(rows_.data(), n_keys, head_dim, k_columns_.data(), kKeyTile);
    multiply(q_.data(), head_dim, k_columns_.data(), kKeyTile, logits_.data(), kKeyTile, n_, head_dim, kKeyTile, false);
    gather_rows(args_.v, begin, n_keys, kv_head_, args_.n_kv_heads, head_dim, args_.dtype, rows_.data());
    for (int i = 0; i < n_; ++i) {
      float* logits = logits_.data() + i * kKeyTile;
      mask(logits, args_.q_start + first_row_ + i, begin, n_keys);
      scale(o_.data() + i * head_dim, softmax_[i].absorb(logits, n_keys), head_dim);
    }
    multiply(logits_.data(), kKeyTile, rows_.data(), head_dim, o_.data(), head_dim, n_, n_keys, head_dim, true);
  }

  void mask(float* logits, std::int64_t q, std::int64_t begin, int n_keys) const {
    scale(logits, args_.scale, n_keys);
    for (int j = 0; j < n_keys; ++j) {
      const std::int64_t t = begin + j;
      if (t > q || (evict_at_ && q >= evict_at_[t])) logits[j] = -INFINITY;
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
  const std::int32_t* evict_at_;
  std::vector<float> q_;          // [kQueryTile, head_dim]
  std::vector<float> rows_;       // [kKeyTile, head_dim] keys, then values
  std::vector<float> k_columns_;  // [head_dim, kKeyTile]
  std::vector<float> logits_;     // [kQueryTile, kKeyTile]
  std::vector<float> o_;          // [kQueryTile, head_dim]
  OnlineSoftmax softmax_[kQueryTile];
};

}  // namespace

void lifetime_attention(const LifetimeAttentionArgs& args) {
  validate(args);
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
