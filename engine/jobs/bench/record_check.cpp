#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <numeric>

#include "engine/jobs/bench/bench_check.h"
#include "engine/model/ops.h"
#include "engine/model/transformer.h"

namespace kvscope::engine {
namespace {

constexpr std::int64_t kCheckedTokens = 64;  // bounds the memory of their logits

/// Attention over all keys, under the lifetimes of a record.
class RecordedHook final : public AttentionHook {
 public:
  explicit RecordedHook(const RunRecord& run) : run_(run) {}

  at::Tensor attend(int layer, const LayerTokens& tokens) override {
    const std::int64_t n = tokens.q.size(0), n_kv_heads = tokens.k.size(1);
    at::Tensor evict_at = at::full({n_kv_heads, n}, kNever, at::kInt);
    for (int head = 0; head < n_kv_heads; ++head) {
      std::int32_t* out = evict_at.data_ptr<std::int32_t>() + head * n;
      if (tokens.window > 0) {
        std::iota(out, out + n, tokens.window);
        continue;
      }
      const std::vector<std::int32_t>& row = run_.evict_at.row(layer, head);
      std::copy_n(row.begin(), std::min<std::size_t>(row.size(), static_cast<std::size_t>(n)), out);
    }
    return ops::lifetime_attention(tokens.q,
                                   {tokens.k.transpose(0, 1), tokens.v.transpose(0, 1), evict_at.to(tokens.q.device())},
                                   0, tokens.scores);
  }

 private:
  const RunRecord& run_;
};

}  // namespace

double check_record(const LoadedModel& model, const RunRecord& run, const std::string& bench) {
  const c10::InferenceMode no_gradients;
  const auto n = static_cast<std::int64_t>(run.ids.size()), n_checked = std::min(kCheckedTokens, n - 1);
  RecordedHook hook(run);
  const at::Tensor hidden =
      forward(model.config(), model.weights(), ids_tensor(model.weights(), run.ids.data(), n), 0, hook);
  const at::Tensor logits = logits_of(model.weights(), hidden.narrow(0, n - 1 - n_checked, n_checked));
  const at::Tensor logprobs = logits.log_softmax(-1);
  const at::Tensor next = ids_tensor(model.weights(), run.ids.data() + (n - n_checked), n_checked);
  const at::Tensor expected = logprobs.gather(1, next.view({-1, 1})).view({-1}).cpu().contiguous();
  return check_close(std::span(run.logprobs).last(static_cast<std::size_t>(n_checked)),
                     {expected.data_ptr<float>(), static_cast<std::size_t>(n_checked)}, model, bench,
                     run.policy.to_string(), logits.abs().max().item<double>());
}

}  // namespace kvscope::engine
