// TOVA (Oren et al., 2024): the attention of the last query, in the mean over all query heads of the layer.
#include <optional>

#include "engine/decode/eviction/observed_attention.h"

namespace kvscope::engine {
namespace {

class Tova final : public LeastAttention {
 public:
  explicit Tova(SequenceState& state) : LeastAttention(state, kernels::MassRule::last) {
    if (state.policy.plan().dense_prefill || state.policy.evicts_behind_chunks()) last_query_.emplace(state, 1);
  }
  void observe(int layer, const LayerTokens& tokens, std::int64_t first) override {
    if (last_query_) last_query_->store(layer, tokens.q, first);
    in_chunks_ = true;
  }

 private:
  Score prompt_score(int n_tokens) const override {
    return {.reads = Reads::keys,
            .of = [this, n_tokens](const OrderedTokens& tokens) { return scores(tokens, n_tokens); }};
  }
  at::Tensor scores(const OrderedTokens& tokens, int n_tokens) const;

  std::optional<QueryRing> last_query_;  // of a dense prompt, or a chunk
};

at::Tensor Tova::scores(const OrderedTokens& tokens, int n_tokens) const {
  const ModelConfig& config = state_.model.config();
  const auto [q, q_position] = last_query_->newest(tokens.layer, 1, n_tokens);  // [rows, group, 1, head_dim]
  const std::int64_t group = q.size(1);
  const AttentionScores scores = scores_of(state_, tokens.layers);
  const at::Tensor position = tokens.position.flatten(0, 1);
  const auto of_rows = [&, &q = q, &q_position = q_position](std::int64_t first, std::int64_t n) {
    const auto part = [&](const at::Tensor& all) { return all.narrow(0, first, n); };
    return causal_probabilities(part(q), part(tokens.k), q_position, part(position),
                                scores.of_heads(first * group, n * group))
        .select(2, 0)
        .sum(1);
  };
  const at::Tensor of_heads =
      by_blocks(q.size(0), tokens.most() * config.head_dim, q.device(), of_rows).view(tokens.position.sizes());
  at::Tensor sum = of_heads.select(1, 0).clone();
  for (int head = 1; head < config.n_kv_heads; ++head) sum.add_(of_heads.select(1, head));
  return sum.div_(config.n_heads).unsqueeze(1).expand_as(of_heads);
}

}  // namespace

std::unique_ptr<AttentionMethod> make_tova(SequenceState& state) { return std::make_unique<Tova>(state); }

}  // namespace kvscope::engine
