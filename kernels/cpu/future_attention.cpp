#include "kernels/future_attention.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/online_softmax.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kKeyTile = 64;
constexpr int kQueryTile = 32;

/// Adds the mass that one head's queries give to the keys [begin, begin + kKeyTile).
void add_mass(const FutureAttentionArgs& args, int head, std::int64_t begin) {
  const int head_dim = args.head_dim;
  const int kv_head = head / (args.n_heads / args.n_kv_heads);
  const int n_keys = static_cast<int>(std::min<std::int64_t>(kKeyTile, args.kv_len - begin));
  std::vector<float> k_columns(static_cast<std::size_t>(head_dim) * kKeyTile, 0.0f);  // [head_dim, kKeyTile]
  std::vector<float> q(static_cast<std::size_t>(kQueryTile) * head_dim);              // [kQueryTile, head_dim]
  std::vector<float> logits(kQueryTile * kKeyTile);
  std::vector<float> row(head_dim);
  for (int j = 0; j < n_keys; ++j) {
    const std::int64_t index = ((begin + j) * args.n_kv_heads + kv_head) * head_dim;
    transpose(as_floats(args.k, index, head_dim, args.dtype, row.data()), 1, head_dim, k_columns.data() + j, kKeyTile);
  }

  // Over many queries float32 would lose the small terms.
  double mass[kKeyTile] = {}, square[kKeyTile] = {};
  float most[kKeyTile] = {};
  const std::int64_t first_row = std::max<std::int64_t>(0, begin + args.window - args.q_start);
  const std::int64_t end_row = args.look_ahead > 0
                                   ? std::min(args.q_len, begin + n_keys + args.window + args.look_ahead - args.q_start)
                                   : args.q_len;
  for (std::int64_t r = first_row; r < end_row; r += kQueryTile) {
    const int n = static_cast<int>(std::min<std::int64_t>(kQueryTile, end_row - r));
    for (int i = 0; i < n; ++i) {
      const std::int64_t index = ((r + i) * args.n_heads + head) * head_dim;
      copy_floats(args.q, index, head_dim, args.dtype, q.data() + i * head_dim);
    }
    multiply(q.data(), head_dim, k_columns.data(), kKeyTile, logits.data(), kKeyTile, n, head_dim, kKeyTile, false);
    for (int i = 0; i < n; ++i) {
      const std::int64_t position = args.q_start + r + i;
      const std::int64_t newest = position - args.window;  // the last key that this query counts for
      const std::int64_t oldest = args.look_ahead > 0 ? newest - args.look_ahead : 0;
      const int from = static_cast<int>(std::clamp<std::int64_t>(oldest - begin, 0, n_keys));
      const int to = static_cast<int>(std::clamp<std::int64_t>(newest + 1 - begin, from, n_keys));
      float* probability = logits.data() + i * kKeyTile;
      make_scores(probability + from, args.scale, args.soft_cap, to - from);
      exp_and_sum(probability + from, args.lse[head * args.q_len + r + i], to - from);
      for (int j = from; j < to; ++j) mass[j] += probability[j];
      if (args.square == nullptr) continue;
      for (int j = from; j < to; ++j) {
        square[j] += static_cast<double>(probability[j]) * probability[j];
        most[j] = std::max(most[j], probability[j]);
      }
    }
  }
  for (int j = 0; j < n_keys; ++j) {
    float& out = args.mass[head * args.mass_stride + begin + j];
    out = static_cast<float>(out + mass[j]);
  }
  if (args.square == nullptr) return;
  for (int j = 0; j < n_keys; ++j) {
    const std::int64_t at = head * args.mass_stride + begin + j;
    args.square[at] = static_cast<float>(args.square[at] + square[j]);
    args.most[at] = std::max(args.most[at], most[j]);
  }
}

}  // namespace

void future_attention(const FutureAttentionArgs& args) {
  const std::int64_t n_tiles = (args.kv_len + kKeyTile - 1) / kKeyTile;
  const std::int64_t cost = args.q_len * kKeyTile * (args.head_dim + 10L);
  parallel_for(n_tiles * args.n_heads, cost, [&](std::int64_t i) {
    add_mass(args, static_cast<int>(i % args.n_heads), i / args.n_heads * kKeyTile);
  });
}

}  // namespace kvscope::kernels::cpu
