// H2O (Zhang et al., 2023): attention summed over all queries, in the mean over the group, or divided by how many of them
// could see the token. A dense prompt adds it up chunk by chunk, in the slots' priorities.
#include "engine/decode/eviction/observed_attention.h"
#include "engine/model/ops.h"

namespace kvscope::engine {
namespace {

class H2o final : public LeastAttention {
 public:
  explicit H2o(SequenceState& state)
      : LeastAttention(state, is_mean(state) ? kernels::MassRule::mean : kernels::MassRule::sum) {}
  bool reads_prompt_attention() const override { return true; }
  bool accepts(const PolicySpec& next) const override {
    return next.value("normalise") == state_.policy.spec().value("normalise");
  }
  void observe_attention(int layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& lse,
                         std::int64_t n_before) override {
    const std::int64_t n_heads = q.size(1), n_keys = k.size(1), n_kv_heads = k.size(0);
    const at::Tensor mass = at::zeros({n_heads, n_keys}, lse.options());
    // By slot, not by position: whatever was before sees none of these queries ahead of it.
    ops::future_attention(q, k.transpose(0, 1).contiguous(), lse, {.sum = mass}, n_before,
                          attention_scores(state_.model.config(), state_.model.weights(), layer), 0);
    const at::Tensor sums = state_.cache.slot_priority(layer).narrow(1, 0, n_keys);
    sums.narrow(1, n_before, n_keys - n_before).zero_();  // of another token, if the slot had one
    const at::Tensor received = mass.view({n_kv_heads, n_heads / n_kv_heads, n_keys}).mean(1);
    if (!is_mean(state_)) {
      sums.add_(received);
      return;
    }
    const at::Tensor position = state_.cache.slot_positions()[layer].narrow(1, 0, n_keys);
    const at::Tensor n_queries = (position.amax(1, /*keepdim=*/true) + 1 - position).to(at::kFloat);
    sums.mul_((n_queries - q.size(0)).clamp_min_(0)).add_(received).div_(n_queries);
  }

 private:
  static bool is_mean(const SequenceState& state) { return state.policy.spec().value("normalise") == 1; }

  Score prompt_score(int) const override { return by_priority(state_); }
};

}  // namespace

std::unique_ptr<AttentionMethod> make_h2o(SequenceState& state) { return std::make_unique<H2o>(state); }

}  // namespace kvscope::engine
