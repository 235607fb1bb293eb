#include "kernels/decode_attention.h"

#include <cmath>
#include <vector>

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {

void decode_attention(const DecodeAttentionArgs& args) {
  const SlotCacheView& cache = args.cache;
  const int group_size = args.n_heads / cache.n_kv_heads;
  const int head_dim = cache.head_dim;
  for (int head = 0; head < args.n_heads; ++head) {
    const int kv_head = head / group_size;
    std::vector<std::int64_t> rows;  // of the occupied slots
    for (std::int32_t slot = 0; slot < cache.n_slots[kv_head]; ++slot) {
      if (cache.slot_position[first_slot_of(cache, kv_head) + slot] >= 0)
        rows.push_back(first_element_of(cache, kv_head, slot));
    }
    std::vector<double> logits(rows.size(), 0.0);
    const double sink = sink_of(args.variant, head);
    double maximum = sink;
    for (std::size_t s = 0; s < rows.size(); ++s) {
      for (int i = 0; i < head_dim; ++i) {
        logits[s] += load(args.q, head * head_dim + i, cache.dtype) * load(cache.k_pool, rows[s] + i, cache.dtype);
      }
      logits[s] = score(logits[s], args.scale, args.variant.soft_cap);
      maximum = std::fmax(maximum, logits[s]);
    }
    double denominator = sink_weight(sink, maximum);
    for (const double logit : logits) denominator += std::exp(logit - maximum);
    for (int i = 0; i < head_dim; ++i) {
      double sum = 0;
      for (std::size_t s = 0; s < rows.size(); ++s) {
        sum += std::exp(logits[s] - maximum) * load(cache.v_pool, rows[s] + i, cache.dtype);
      }
      store(args.o, head * head_dim + i, cache.dtype, denominator == 0 ? 0 : sum / denominator);
    }
    if (args.lse) args.lse[head] = static_cast<float>(maximum + std::log(denominator));  // -inf + log 0 = -inf
  }
}

}  // namespace kvscope::kernels::reference
