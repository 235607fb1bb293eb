// Expected Attention (Devoto et al., 2025): the attention that a key can expect from queries distributed like those
// seen so far, N(mu, Sigma) before rotation, at the positions to come.
#include <algorithm>

#include "engine/core/files/weights/kernel_limits.h"
#include "engine/decode/eviction/observed_attention.h"

namespace kvscope::engine {
namespace {

/// Mean of the rotations to positions first ... first + n - 1, [head_dim, head_dim]: rotation is linear, so what it
/// makes of mu and Sigma in the mean is this matrix.
at::Tensor mean_rotation(const LayerWeights& layer, std::int64_t first, std::int64_t n) {
  const at::Tensor position = at::arange(first, first + n, layer.inv_freq.options());
  const at::Tensor angle = position.unsqueeze(1) * layer.inv_freq.unsqueeze(0);
  const at::Tensor cosine = at::diag(angle.cos().mean(0)), sine = at::diag(angle.sin().mean(0));
  const at::Tensor top = at::cat({cosine, -sine}, 1), bottom = at::cat({sine, cosine}, 1);
  return at::cat({top, bottom}, 0) * layer.attention_scaling;
}

constexpr int kObserved = 256;  // newest queries that the statistics are of, unless a prompt has just passed

/// The newest queries, turned to the mean of the `future` positions after them. A rotation by f after one by -p is one by
/// f - p, so it depends on how far a query is from the end, and not on where the end is.
class FutureRotation {
 public:
  /// `rotated` [..., n, head_dim] float32, the oldest first, as attention reads them: the factor that a stretched rotary
  /// embedding gives queries stays as it is.
  at::Tensor of(const at::Tensor& rotated, int future, const LayerWeights& layer) {
    if (of_layer_ != &layer) prepare(future, layer);
    const std::int64_t n = rotated.size(-2), half = rotated.size(-1) / 2;
    const at::Tensor low = rotated.narrow(-1, 0, half), high = rotated.narrow(-1, half, half);
    const at::Tensor cosine = cosine_.narrow(0, kObserved - n, n), sine = sine_.narrow(0, kObserved - n, n);
    return at::cat({low * cosine - high * sine, high * cosine + low * sine}, -1);
  }

 private:
  void prepare(int future, const LayerWeights& layer) {
    const auto options = layer.inv_freq.options();
    const at::Tensor distance = at::arange(kObserved, 0, -1, options).unsqueeze(1) + at::arange(future, options);
    const at::Tensor angle = distance.unsqueeze(2) * layer.inv_freq;  // [kObserved, future, head_dim / 2]
    cosine_ = angle.cos().mean(1);
    sine_ = angle.sin().mean(1);
    of_layer_ = &layer;
  }

  const LayerWeights* of_layer_ = nullptr;
  at::Tensor cosine_, sine_;  // [kObserved, head_dim / 2], the farthest first
};

/// Of queries at the positions to come.
struct Statistics {
  at::Tensor mean;        // [layers * n_heads, head_dim]
  at::Tensor covariance;  // [layers * n_heads, head_dim, head_dim]
};

Statistics of_sums(const at::Tensor& sum, const at::Tensor& outer, double n) {
  const at::Tensor mean = sum / std::max(1.0, n);
  return {mean, outer / std::max(1.0, n) - mean.unsqueeze(2) * mean.unsqueeze(1)};
}

class ExpectedAttention final : public AttentionMethod {
 public:
  explicit ExpectedAttention(SequenceState& state);
  bool reads_unrotated() const override { return true; }
  void observe(int layer, const LayerTokens& tokens, std::int64_t first) override;
  void after_attention(const LayerStep& step) override { ring_.enqueue(step); }
  void observe_step(std::int32_t position, const kernels::RetainDecision* decisions, const float*) override {
    state_.order.note_step(position, decisions);
  }
  void after_prompt(int prompt_len, StepFacts* facts) override;
  void after_step(int prompt_len, int n_tokens, StepFacts* facts) override;
  /// By the statistics of the newest queries, whatever `interval` says.
  void after_chunk(int n_tokens, StepFacts* facts) override;
  bool accepts(const PolicySpec& next) const override;

 private:
  /// n_more: tokens that come before anything leaves again.
  void compress(int n_tokens, int n_more, bool after_prompt, StepFacts* facts);
  Statistics of_newest(const OrderedTokens& tokens, int n_tokens);
  Statistics of_prompt(const OrderedTokens& tokens, int n_tokens) const;
  at::Tensor scores(const OrderedTokens& tokens, int n_tokens, const Statistics& seen) const;

  const PolicySpec& spec() const { return state_.policy.spec(); }
  int n_sink() const { return state_.policy.geometry().n_sink; }

  QueryRing ring_;
  FutureRotation rotation_;
  /// Of the prompt's n_queries_ queries before rotation: sum and sum of outer products, [n_layers, n_heads, head_dim (,
  /// head_dim)] float32.
  at::Tensor query_sum_, query_outer_;
  std::int64_t n_queries_ = 0;
};

ExpectedAttention::ExpectedAttention(SequenceState& state) : AttentionMethod(state), ring_(state, kObserved) {
  const ModelConfig& config = state.model.config();
  require_no_soft_cap(config, "ExpectedAttention's estimate of it");
  const auto floats = at::TensorOptions().device(state.model.weights().device).dtype(at::kFloat);
  query_sum_ = at::zeros({config.n_layers, config.n_heads, config.head_dim}, floats);
  query_outer_ = at::zeros({config.n_layers, config.n_heads, config.head_dim, config.head_dim}, floats);
}

void ExpectedAttention::observe(int layer, const LayerTokens& tokens, std::int64_t first) {
  ring_.store(layer, tokens.q, first);
  const std::int64_t n = tokens.q.size(0), skip = std::clamp<std::int64_t>(n_sink() - first, 0, n);
  const at::Tensor q = tokens.q_unrotated.narrow(0, skip, n - skip).to(at::kFloat).transpose(0, 1);  // [heads, n, D]
  query_sum_[layer].add_(q.sum(1));
  query_outer_[layer].baddbmm_(q.transpose(1, 2), q);
  if (layer == 0) n_queries_ += n - skip;
}

void ExpectedAttention::after_prompt(int prompt_len, StepFacts* facts) {
  const int interval = spec().count("interval");
  compress(prompt_len, interval > 0 ? interval : state_.n_positions - prompt_len, true, facts);
}

void ExpectedAttention::after_step(int prompt_len, int n_tokens, StepFacts* facts) {
  const int interval = spec().count("interval");
  if (interval > 0 && (n_tokens - prompt_len) % interval == 0) compress(n_tokens, interval, false, facts);
}

void ExpectedAttention::after_chunk(int n_tokens, StepFacts* facts) {
  if (!exceeds_budget(state_)) return;
  compress(n_tokens, state_.policy.forced_chunk(), false, facts);
}

bool ExpectedAttention::accepts(const PolicySpec& next) const {
  for (const char* fixed : {"future", "interval", "covariance", "values", "epsilon"}) {
    if (next.value(fixed) != spec().value(fixed)) return false;
  }
  return true;
}

void ExpectedAttention::compress(int n_tokens, int n_more, bool after_prompt, StepFacts* facts) {
  const bool with_values = spec().value("values") == 1;
  keep_best(state_, {.n_tokens = n_tokens, .fixed_from = n_tokens - spec().count("protect"), .n_more = n_more},
            {.reads = with_values ? Reads::keys_and_values : Reads::keys,
             .of =
                 [&](const OrderedTokens& tokens) {
                   return scores(tokens, n_tokens,
                                 after_prompt ? of_prompt(tokens, n_tokens) : of_newest(tokens, n_tokens));
                 }},
            facts);
}

Statistics ExpectedAttention::of_prompt(const OrderedTokens& tokens, int n_tokens) const {
  const auto of_layers = [&](const at::Tensor& all) { return all.index_select(0, tokens.layer).flatten(0, 1); };
  const Statistics seen = of_sums(of_layers(query_sum_), of_layers(query_outer_), static_cast<double>(n_queries_));
  const LayerWeights& alike = state_.model.weights().layers[static_cast<std::size_t>(tokens.layers.front())];
  const at::Tensor rotation = mean_rotation(alike, n_tokens, spec().count("future"));
  return {at::matmul(seen.mean, rotation.t()), at::matmul(at::matmul(rotation, seen.covariance), rotation.t())};
}

Statistics ExpectedAttention::of_newest(const OrderedTokens& tokens, int n_tokens) {
  // The sinks' own are among them while the text is short.
  const int n_queries = std::clamp(n_tokens - n_sink(), 0, kObserved);
  const LayerWeights& alike = state_.model.weights().layers[static_cast<std::size_t>(tokens.layers.front())];
  const std::int64_t n_layers = tokens.layer.size(0), dim = state_.model.config().head_dim;
  const auto of_layers = [&](std::int64_t first, std::int64_t n) {
    const at::Tensor seen = ring_.newest(tokens.layer.narrow(0, first, n), n_queries, n_tokens).q.flatten(0, 1);
    const at::Tensor q = rotation_.of(seen, spec().count("future"), alike);
    return at::cat({at::bmm(q.transpose(1, 2), q), q.sum(1, /*keepdim=*/true)}, 1);
  };
  const at::Tensor sums =
      by_blocks(n_layers, state_.model.config().n_heads * n_queries * dim, tokens.layer.device(), of_layers);
  return of_sums(sums.select(1, dim), sums.narrow(1, 0, dim), n_queries);
}

at::Tensor ExpectedAttention::scores(const OrderedTokens& tokens, int n_tokens, const Statistics& seen) const {
  const bool with_covariance = spec().value("covariance") == 1;
  const double epsilon = spec().value("epsilon");
  const ModelConfig& config = state_.model.config();
  const int layer = tokens.layers.front(), group = config.group_size();  // the others are as this one
  const std::int64_t rows = tokens.k.size(0), dim = config.head_dim;
  const at::Tensor mean = seen.mean.view({rows, group, dim});
  // Of a group side by side: its keys are multiplied once, [rows, head_dim, group * head_dim].
  const at::Tensor covariance = seen.covariance.view({rows, group, dim, dim}).transpose(1, 2).reshape({rows, dim, -1});
  const double root = 1 / config.attention_scale(layer);  // sqrt(d): dividing by it rounds once, as in the paper's code
  at::Tensor sink = scores_of(state_, tokens.layers).sink;  // of each query head: one more key, without a value
  if (sink.defined()) sink = sink.view({rows, group, 1});
  // The sinks are first in every head, which never leave.
  const std::int64_t n_sinks = std::min<std::int64_t>(n_sink(), tokens.most()), n_keys = tokens.most() - n_sinks;
  const at::Tensor is_empty = tokens.position.flatten(0, 1).narrow(1, n_sinks, n_keys) >= n_tokens;
  const auto of_rows = [&](std::int64_t first, std::int64_t n) {
    const auto part = [&](const at::Tensor& all) { return all.narrow(0, first, n); };
    const auto past_sinks = [&](const at::Tensor& all) { return part(all).narrow(1, n_sinks, n_keys).to(at::kFloat); };
    const at::Tensor k = past_sinks(tokens.k);
    at::Tensor logits;      // [n, group, n_keys]
    if (with_covariance) {  // (mu + Sigma k / (2 sqrt(d))) . k / sqrt(d)
      const at::Tensor weighted =
          at::baddbmm(part(mean).view({n, 1, group * dim}), k, part(covariance), 1, 1 / (2 * root));
      logits = (weighted.view({n, n_keys, group, dim}).mul_(k.unsqueeze(2)).sum(3) / root).transpose(1, 2).contiguous();
    } else {
      logits = at::matmul(part(mean), k.transpose(1, 2)) / root;
    }
    logits.masked_fill_(part(is_empty).unsqueeze(1), -INFINITY);
    if (sink.defined()) logits = at::cat({logits, part(sink)}, 2);
    const at::Tensor score = logits.softmax(-1).mean(1).narrow(1, 0, n_keys);
    return tokens.v.defined() ? (score + epsilon) * past_sinks(tokens.v).norm(2, -1) : score;
  };
  const at::Tensor scores = by_blocks(rows, group * n_keys * dim, mean.device(), of_rows);
  return at::constant_pad_nd(scores, {n_sinks, 0}).view(tokens.position.sizes());
}

}  // namespace

std::unique_ptr<AttentionMethod> make_expected_attention(SequenceState& state) {
  return std::make_unique<ExpectedAttention>(state);
}

}  // namespace kvscope::engine
