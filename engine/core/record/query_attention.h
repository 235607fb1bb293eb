#pragma once
// What one query looks at: the attention that it gives each token up to itself, in every head.

#include <cstdint>
#include <vector>

namespace kvscope {

/// Of the text `ids` under a full cache (teacher forcing); the query is its last token.
struct QueryAttentionRequest {
  std::vector<std::int32_t> ids;
};

/// p of KV head h on token t: softmax(scale q . k) over all tokens up to the query, mean over the query heads of the group.
struct QueryAttention {
  int n_layers = 0, n_kv_heads = 0, n_tokens = 0;  // the query is token n_tokens - 1
  std::vector<float> probability;                  // [n_layers][n_kv_heads][n_tokens]

  int query() const { return n_tokens - 1; }
  const float* row(int layer, int kv_head) const {
    return probability.data() + (static_cast<std::size_t>(layer) * static_cast<std::size_t>(n_kv_heads) +
                                 static_cast<std::size_t>(kv_head)) *
                                    static_cast<std::size_t>(n_tokens);
  }
};

}  // namespace kvscope
