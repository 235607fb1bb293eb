#include "engine/decode/query_attention.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "engine/core/support/error.h"
#include "engine/decode/dense_attention.h"
#include "engine/model/ops.h"
#include "engine/model/transformer.h"

namespace kvscope::engine {
namespace {

constexpr std::int64_t kQueriesAtOnce = 512;      // of one pass; bounds its memory and the time until a cancel is heard
constexpr std::int64_t kMostShares = 60'000'000;  // 240 MB: a message has at most 256 MiB

[[noreturn]] void refuse_query(const char* what, std::int64_t found, const std::string& expected) {
  throw Error({.code = ExitCode::usage,
               .file = "query_attention",
               .where = what,
               .found = std::to_string(found),
               .expected = expected});
}

void check_query(const ModelConfig& config, const QueryAttentionRequest& request) {
  const auto n = static_cast<std::int64_t>(request.ids.size());
  const std::int64_t most =
      std::min<std::int64_t>(config.max_positions, kMostShares / (config.n_layers * config.n_kv_heads));
  if (n == 0 || n > most) refuse_query("ids", n, "1 ... " + std::to_string(most) + " tokens");
  for (const std::int32_t id : request.ids)
    if (id < 0 || id >= config.vocab_size) refuse_query("id", id, "0 ... " + std::to_string(config.vocab_size - 1));
}

class LastRowHook final : public AttentionHook {
 public:
  LastRowHook(const LoadedModel& model, std::int64_t n) : model_(model), n_(n) {
    const ModelConfig& config = model.config();
    const auto options = at::TensorOptions().device(model.weights().device).dtype(model.weights().dtype);
    keys_ = at::empty({config.n_layers, config.n_kv_heads, n, config.head_dim}, options);
    values_ = at::empty_like(keys_);
    rows_ = at::zeros({config.n_layers, config.n_kv_heads, n}, options.dtype(at::kFloat));
  }

  at::Tensor attend(int layer, const LayerTokens& tokens) override {
    const std::int64_t n = tokens.q.size(0);
    const at::Tensor keys = keys_[layer], values = values_[layer];
    keys.narrow(1, first_, n).copy_(tokens.k.transpose(0, 1));
    values.narrow(1, first_, n).copy_(tokens.v.transpose(0, 1));
    if (first_ + n == n_) keep(layer, tokens, keys);
    return dense_attention(choose_dense_backend(tokens.q, model_.config().n_kv_heads), tokens.q, keys, values, first_,
                           tokens.scores, tokens.window);
  }

  void advance(std::int64_t n) { first_ += n; }
  at::Tensor take() const { return rows_.cpu().contiguous(); }

 private:
  /// Of the last of the chunk's queries, over the keys that its window has.
  void keep(int layer, const LayerTokens& tokens, const at::Tensor& keys) {
    const std::int64_t seen = tokens.window > 0 ? std::min<std::int64_t>(tokens.window, n_) : n_, begin = n_ - seen;
    const std::int64_t n_kv_heads = model_.config().n_kv_heads, group = model_.config().group_size();
    const at::Tensor query = tokens.q.select(0, tokens.q.size(0) - 1).to(at::kFloat);  // [n_heads, d]
    const at::Tensor products =
        query.view({n_kv_heads, group, -1}).matmul(keys.narrow(1, begin, seen).to(at::kFloat).transpose(1, 2));
    const at::Tensor scores = tokens.scores.score_(products).view({n_kv_heads * group, 1, seen});
    rows_[layer]
        .narrow(1, begin, seen)
        .copy_(tokens.scores.weights_of(scores).reshape({n_kv_heads, group, seen}).mean(1));
  }

  const LoadedModel& model_;
  std::int64_t n_, first_ = 0;
  at::Tensor keys_, values_;  // [n_layers, n_kv_heads, n, head_dim]
  at::Tensor rows_;           // [n_layers, n_kv_heads, n]
};

}  // namespace

QueryAttention query_attention(const LoadedModel& model, const QueryAttentionRequest& request, const Hooks& hooks) {
  const c10::InferenceMode no_gradients;
  check_query(model.config(), request);
  const auto n_tokens = static_cast<std::int64_t>(request.ids.size());
  LastRowHook hook(model, n_tokens);
  const at::Tensor ids = ids_tensor(model.weights(), request.ids.data(), n_tokens);
  for (std::int64_t first = 0; first < n_tokens; first += kQueriesAtOnce) {
    if (hooks.is_cancelled()) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
    if (hooks.progress) hooks.progress("attention", static_cast<double>(first), static_cast<double>(n_tokens));
    const std::int64_t n = std::min(kQueriesAtOnce, n_tokens - first);
    forward(model.config(), model.weights(), ids.narrow(0, first, n), first, hook);
    hook.advance(n);
  }
  const at::Tensor rows = hook.take();
  QueryAttention out{.n_layers = model.config().n_layers,
                     .n_kv_heads = model.config().n_kv_heads,
                     .n_tokens = static_cast<int>(n_tokens)};
  out.probability.assign(rows.data_ptr<float>(), rows.data_ptr<float>() + rows.numel());
  return out;
}

}  // namespace kvscope::engine
