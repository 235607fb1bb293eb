#include "kernels/lifetime_attention.h"

#include <cmath>
#include <vector>

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {
namespace {

/// Keys that query q of `kv_head` sees.
std::vector<std::int64_t> visible_keys(const LifetimeAttentionArgs& args, int kv_head, std::int64_t q) {
  std::vector<std::int64_t> keys;
  for (std::int64_t i = 0; i < args.kv_len; ++i) {
    const std::int64_t t = args.k_position ? args.k_position[kv_head * args.kv_len + i] : i;
    if (t <= q && (!args.evict_at || q < args.evict_at[kv_head * args.kv_len + i])) keys.push_back(i);
  }
  return keys;
}

}  // namespace

void lifetime_attention(const LifetimeAttentionArgs& args) {
  const int group_size = args.n_heads / args.n_kv_heads;
  const int head_dim = args.head_dim;
  for (int head = 0; head < args.n_heads; ++head) {
    const int kv_head = head / group_size;
    for (std::int64_t row = 0; row < args.q_len; ++row) {
      const std::vector<std::int64_t> keys = visible_keys(args, kv_head, args.q_start + row);
      const std::int64_t at_q = (row * args.n_heads + head) * head_dim;
      std::vector<double> logits(keys.size(), 0.0);
      const double sink = sink_of(args.variant, head);
      double maximum = sink;
      for (std::size_t s = 0; s < keys.size(); ++s) {
        const std::int64_t at_k = keys[s] * token_stride(args) + kv_head * head_stride(args);
        for (int i = 0; i < head_dim; ++i) {
          logits[s] += load(args.q, at_q + i, args.dtype) * load(args.k, at_k + i, args.dtype);
        }
        logits[s] = score(logits[s], args.scale, args.variant.soft_cap);
        maximum = std::fmax(maximum, logits[s]);
      }
      std::vector<double> sum(head_dim, 0.0);
      double denominator = sink_weight(sink, maximum);
      for (std::size_t s = 0; s < keys.size(); ++s) {
        const std::int64_t at_v = keys[s] * token_stride(args) + kv_head * head_stride(args);
        const double weight = std::exp(logits[s] - maximum);
        denominator += weight;
        for (int i = 0; i < head_dim; ++i) sum[i] += weight * load(args.v, at_v + i, args.dtype);
      }
      for (int i = 0; i < head_dim; ++i) {
        store(args.o, at_q + i, args.dtype, denominator == 0 ? 0 : sum[i] / denominator);
      }
      if (args.lse)  // -inf + log 0 = -inf
        args.lse[head * args.q_len + row] = static_cast<float>(maximum + std::log(denominator));
    }
  }
}

}  // namespace kvscope::kernels::reference
