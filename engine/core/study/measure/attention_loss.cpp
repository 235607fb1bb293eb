#include "engine/core/study/measure/attention_loss.h"

#include <algorithm>

namespace kvscope {

AttentionLoss attention_loss(const TokenAttention& attention, std::size_t index, int first_head, int n_heads,
                             int window, std::int32_t evict_at) {
  AttentionLoss loss;
  for (int q = attention.tokens[index] + std::max(0, window); q < attention.n_queries; ++q) {
    double sum = 0;
    for (int head = first_head; head < first_head + n_heads; ++head) sum += attention.row(index, head)[q];
    loss.all += sum / n_heads;
    if (q >= evict_at) loss.lost += sum / n_heads;  // the marks of those that stay are greater than any query
  }
  return loss;
}

}  // namespace kvscope
