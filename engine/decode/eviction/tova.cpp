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
  at::Tensor prompt_scores(int layer, const OrderedLayer& tokens, int n_tokens) const override;

  std::optional<QueryRing> last_query_;  // of a dense prompt, or a chunk
};

at::Tensor Tova::prompt_scores(int layer, const OrderedLayer& tokens, int n_tokens) const {
  const ModelConfig& config = state_.model.config();
  const auto [q, q_position] = last_query_->newest(layer, 1, n_tokens);
  const AttentionScores scores = attention_scores(config, state_.model.weights(), layer);
  at::Tensor sum = at::zeros({tokens.most()}, tokens.k.options().dtype(at::kFloat));
  for (int head = 0; head < config.n_kv_heads; ++head) {
    const int group = config.group_size();
    const auto& positions = tokens.positions[static_cast<std::size_t>(head)];
    const auto n = static_cast<std::int64_t>(positions.size());
    const at::Tensor k_position = tokens.position[head].narrow(0, 0, n), k = tokens.k[head].narrow(0, 0, n);
    const at::Tensor p = causal_probabilities(q.narrow(1, head * group, group).transpose(0, 1), k, q_position,
                                              k_position, scores.of_heads(head * group, group));  // [group, 1, n]
    sum.narrow(0, 0, k.size(0)).add_(p.select(1, 0).sum(0));
  }
  return sum.div_(config.n_heads).unsqueeze(0).expand({config.n_kv_heads, -1});
}

}  // namespace

std::unique_ptr<AttentionMethod> make_tova(SequenceState& state) { return std::make_unique<Tova>(state); }

}  // namespace kvscope::engine
