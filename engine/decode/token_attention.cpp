#include "engine/decode/token_attention.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>
#include <set>

#include "engine/core/support/error.h"
#include "engine/decode/dense_attention.h"
#include "engine/model/ops.h"
#include "engine/model/transformer.h"

namespace kvscope::engine {
namespace {

constexpr std::int64_t kChunk = 512;  // queries of one pass; bounds its memory and the time until a cancel is heard

[[noreturn]] void refuse(const char* what, std::int64_t found, const std::string& expected) {
  throw Error({.code = ExitCode::usage,
               .file = "attention",
               .where = what,
               .found = std::to_string(found),
               .expected = expected});
}

void check(const ModelConfig& config, const TokenAttentionRequest& request) {
  const auto n = static_cast<std::int64_t>(request.ids.size());
  if (n == 0 || n > config.max_positions) {
    refuse("ids", n, "1 ... " + std::to_string(config.max_positions) + " tokens");
  }
  for (const std::int32_t id : request.ids) {
    if (id < 0 || id >= config.vocab_size) refuse("id", id, "0 ... " + std::to_string(config.vocab_size - 1));
  }
  if (request.layer < 0 || request.layer >= config.n_layers) {
    refuse("layer", request.layer, "0 ... " + std::to_string(config.n_layers - 1));
  }
  const std::size_t most = TokenAttentionRequest::kMostTokens;
  if (request.tokens.empty() || request.tokens.size() > most) {
    refuse("tokens", static_cast<std::int64_t>(request.tokens.size()), "1 ... " + std::to_string(most));
  }
  if (std::set(request.tokens.begin(), request.tokens.end()).size() != request.tokens.size()) {
    throw Error({.code = ExitCode::usage, .file = "attention", .where = "tokens", .found = "a token twice"});
  }
  for (const std::int32_t token : request.tokens) {
    if (token < 0 || token >= n) refuse("token", token, "0 ... " + std::to_string(n - 1));
  }
}

class ColumnHook final : public AttentionHook {
 public:
  ColumnHook(const LoadedModel& model, const TokenAttentionRequest& request)
      : model_(model), request_(request), n_(static_cast<std::int64_t>(request.ids.size())) {
    const ModelConfig& config = model.config();
    const auto options = at::TensorOptions().device(model.weights().device).dtype(model.weights().dtype);
    keys_ = at::empty({request.layer + 1, config.n_kv_heads, n_, config.head_dim}, options);
    values_ = at::empty_like(keys_);
    columns_ = at::full({static_cast<std::int64_t>(request.tokens.size()), config.n_heads, n_},
                        std::numeric_limits<float>::quiet_NaN(), options.dtype(at::kFloat));
  }

  at::Tensor attend(int layer, const LayerTokens& tokens) override {
    const std::int64_t n = tokens.q.size(0);
    const at::Tensor keys = keys_[layer], values = values_[layer];
    keys.narrow(1, first_, n).copy_(tokens.k.transpose(0, 1));
    values.narrow(1, first_, n).copy_(tokens.v.transpose(0, 1));
    if (layer < request_.layer) {
      const int n_kv_heads = model_.config().n_kv_heads;
      return dense_attention(choose_dense_backend(tokens.q, n_kv_heads), tokens.q, keys, values, first_, tokens.scores,
                             tokens.window);
    }
    const at::Tensor lse = at::empty({tokens.q.size(1), n}, columns_.options());
    const std::int64_t n_seen = first_ + n;
    const ops::KeysInSight seen = in_window(keys.narrow(1, 0, n_seen), values.narrow(1, 0, n_seen), tokens.window);
    ops::lifetime_attention(tokens.q, seen, first_, tokens.scores, lse);
    keep(tokens, keys, lse);
    return {};
  }

  void advance(std::int64_t n) { first_ += n; }
  at::Tensor take() const { return columns_.cpu().contiguous(); }

 private:
  /// p = exp(score of q . k_t - lse) of this chunk's queries, lse [n_heads, n].
  void keep(const LayerTokens& tokens, const at::Tensor& keys, const at::Tensor& lse) {
    const std::int64_t n = tokens.q.size(0), group = model_.config().group_size();
    const at::Tensor queries = tokens.q.to(at::kFloat).transpose(0, 1);  // [n_heads, n, d]
    for (std::size_t i = 0; i < request_.tokens.size(); ++i) {
      const std::int64_t token = request_.tokens[i], begin = std::max<std::int64_t>(0, token - first_);
      if (begin >= n) continue;
      const at::Tensor key = keys.select(1, token).to(at::kFloat).repeat_interleave(group, 0);  // [n_heads, d]
      const at::Tensor logits = tokens.scores.score_(queries.matmul(key.unsqueeze(2)).squeeze(2));
      columns_[static_cast<std::int64_t>(i)]
          .narrow(1, first_ + begin, n - begin)
          .copy_((logits - lse).narrow(1, begin, n - begin).exp());
      const std::int64_t gone = std::max(begin, token + tokens.window - first_);  // queries that see it no more
      if (tokens.window > 0 && gone < n)
        columns_[static_cast<std::int64_t>(i)].narrow(1, first_ + gone, n - gone).zero_();
    }
  }

  const LoadedModel& model_;
  const TokenAttentionRequest& request_;
  std::int64_t n_, first_ = 0;
  at::Tensor keys_, values_;  // [layer + 1, n_kv_heads, n, head_dim]
  at::Tensor columns_;        // [tokens, n_heads, n]
};

}  // namespace

TokenAttention token_attention(const LoadedModel& model, const TokenAttentionRequest& request, const Hooks& hooks) {
  const c10::InferenceMode no_gradients;
  check(model.config(), request);
  const auto n_tokens = static_cast<std::int64_t>(request.ids.size());
  ColumnHook hook(model, request);
  const at::Tensor ids = ids_tensor(model.weights(), request.ids.data(), n_tokens);
  for (std::int64_t first = 0; first < n_tokens; first += kChunk) {
    if (hooks.is_cancelled()) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
    if (hooks.progress) hooks.progress("attention", static_cast<double>(first), static_cast<double>(n_tokens));
    const std::int64_t n = std::min(kChunk, n_tokens - first);
    forward(model.config(), model.weights(), ids.narrow(0, first, n), first, hook);
    hook.advance(n);
  }
  const at::Tensor columns = hook.take();
  TokenAttention out{.layer = request.layer,
                     .n_heads = model.config().n_heads,
                     .n_queries = static_cast<int>(n_tokens),
                     .tokens = request.tokens};
  out.probability.assign(columns.data_ptr<float>(), columns.data_ptr<float>() + columns.numel());
  return out;
}

}  // namespace kvscope::engine
