#pragma once
// What attention and gates of a layer get to see, as plain numbers: for oracles that are loops in double precision.

#include <cstdint>
#include <vector>

#include "engine/model/transformer.h"
#include "engine/scorer/loaded_model.h"

namespace kvscope::test {

/// [n, n_heads, dim], or one "head" for what has none.
struct Rows {
  int n_heads = 1, dim = 0;
  std::vector<double> values;
  const double* at(int token, int head = 0) const {
    return values.data() + (static_cast<std::size_t>(token) * n_heads + head) * dim;
  }
};

/// As LayerTokens in engine/model/transformer.h.
struct PlainLayer {
  Rows x, input, q_unrotated, k_unrotated, q, k, v;
  double scale = 0;          // of q . k
  std::vector<double> sink;  // of each query head, or empty
  int group_size() const { return q.n_heads / k.n_heads; }
};

/// What a layer was given, all tokens of it.
PlainLayer plain_layer(const engine::LayerTokens& tokens);

/// Every layer of a dense pass. What layer 0 sees depends on no policy, what later layers see only until something
/// leaves.
std::vector<PlainLayer> dense_layers(const engine::LoadedModel& model, const std::vector<std::int32_t>& ids);

double dot(const double* a, const double* b, int n);
/// exp of the score of a product q . k, and of the sink logit of a query head: 0 without (kernels/score_variant.h).
double weight_of(const engine::AttentionScores& scores, double product);
double sink_weight(const engine::AttentionScores& scores, int head);
/// exp of a layer's sink logit of a query head: 0 without.
double sink_weight(const PlainLayer& layer, int head);
/// Softmax over `keys`, positions, and the sink logit; 0 for those behind the query.
std::vector<double> attention(const PlainLayer& layer, int query, int head, const std::vector<int>& keys);
/// The n of greatest worth; of equals the earlier.
std::vector<int> greatest(const std::vector<double>& worth, int n);

}  // namespace kvscope::test
