#include <c10/core/InferenceMode.h>

#include <limits>
#include <numeric>

#include "engine/decode/eviction/active_policy.h"
#include "engine/jobs/bench/bench_check.h"
#include "engine/model/ops.h"
#include "engine/model/transformer.h"

namespace kvscope::engine {
namespace {

/// The definition: a whole prompt at once, nothing remembered from layer to layer.
class PlainHook final : public AttentionHook {
 public:
  PlainHook(const LoadedModel& model, const PolicySpec& policy, int n_positions)
      : n_positions_(n_positions), policy_(policy, n_positions, model) {
    if (policy_.scorer() != nullptr) memory_ = policy_.scorer()->new_memory();
  }
  bool reads_unrotated() const override { return policy_.scorer() != nullptr && policy_.scorer()->reads_unrotated(); }

  at::Tensor attend(int layer, const LayerTokens& tokens) override {
    const at::Tensor &q = tokens.q, &k = tokens.k, &v = tokens.v;
    const std::int64_t n = q.size(0), n_kv_heads = k.size(1);
    const at::Tensor scores = scores_of(layer, tokens);
    at::Tensor evict_at = at::empty({n_kv_heads, n}, at::kInt);
    for (std::int64_t head = 0; head < n_kv_heads; ++head) {
      const auto length = static_cast<std::size_t>(n);
      std::span<const float> of_head;
      if (scores.defined()) of_head = {scores.data_ptr<float>() + head * n, length};
      if (tokens.window > 0) {
        std::iota(evict_at.data_ptr<std::int32_t>() + head * n, evict_at.data_ptr<std::int32_t>() + (head + 1) * n,
                  tokens.window);
        continue;
      }
      policy_lifetimes(policy_.spec(), n_positions_, of_head, static_cast<std::int32_t>(n),
                       {evict_at.data_ptr<std::int32_t>() + head * n, length});
    }
    return ops::lifetime_attention(q, {k.transpose(0, 1), v.transpose(0, 1), evict_at.to(q.device())}, 0,
                                   tokens.scores);
  }

 private:
  at::Tensor scores_of(int layer, const LayerTokens& tokens) {
    const TokenScorer* scorer = policy_.scorer();
    if (scorer == nullptr) return {};
    const at::Tensor by_step = scorer->absorb(layer, tokens, 0, memory_.get()).cpu();
    const std::int64_t n = tokens.k.size(0), delay = scorer->delay();
    at::Tensor scores = at::full_like(by_step, std::numeric_limits<float>::quiet_NaN());
    if (n > delay) scores.narrow(1, 0, n - delay).copy_(by_step.narrow(1, delay, n - delay));
    return scores;
  }

  int n_positions_;
  ActivePolicy policy_;
  std::unique_ptr<ScorerMemory> memory_;
};

}  // namespace

double check_prefill(const LoadedModel& model, const RunRequest& request, const PrefillOptions& options) {
  const c10::InferenceMode no_gradients;
  Generation run(model, request);
  run.set_recording(false);
  run.prefill({}, options);

  PlainHook hook(model, request.policy, run.n_positions());
  const auto n = static_cast<std::int64_t>(run.ids().size());
  const at::Tensor hidden =
      forward(model.config(), model.weights(), ids_tensor(model.weights(), run.ids().data(), n), 0, hook);
  const at::Tensor expected = logits_of(model.weights(), hidden.narrow(0, n - 1, 1)).view({-1}).cpu().contiguous();
  return check_close(run.logits(), {expected.data_ptr<float>(), run.logits().size()}, model, "prefill",
                     request.policy.to_string());
}

}  // namespace kvscope::engine
