#pragma once
// What later queries look at: the attention that chosen tokens of a text get from every query behind them.

#include <cstdint>
#include <vector>

namespace kvscope {

/// Of the text `ids` under a full cache (teacher forcing), in one layer.
struct TokenAttentionRequest {
  static constexpr int kMostTokens = 16;
  std::vector<std::int32_t> ids;
  int layer = 0;
  std::vector<std::int32_t> tokens;  // positions in ids, each once, at most kMostTokens
};

/// p of query head h at query q on token t, softmax(scale q . k) over all keys up to q.
struct TokenAttention {
  int layer = 0, n_heads = 0, n_queries = 0;  // query heads of the model, tokens of the text
  std::vector<std::int32_t> tokens;
  std::vector<float> probability;  // [tokens][n_heads][n_queries]; NaN for queries before the token

  /// Of the token at `index` of `tokens`, [n_queries].
  const float* row(std::size_t index, int head) const {
    return probability.data() + (index * static_cast<std::size_t>(n_heads) + static_cast<std::size_t>(head)) *
                                    static_cast<std::size_t>(n_queries);
  }
};

}  // namespace kvscope
