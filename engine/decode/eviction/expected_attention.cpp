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

/// Queries [n, n_heads, head_dim] at `position`, turned back, float32.
at::Tensor unrotated(const at::Tensor& q, const at::Tensor& position, const LayerWeights& layer) {
  const at::Tensor angle = (position.to(at::kFloat).unsqueeze(1) * layer.inv_freq.unsqueeze(0)).unsqueeze(1);
  const at::Tensor x = q.to(at::kFloat) / layer.attention_scaling;
  const std::int64_t half = x.size(2) / 2;
  const at::Tensor low = x.narrow(2, 0, half), high = x.narrow(2, half, half);
  return at::cat({low * angle.cos() + high * angle.sin(), high * angle.cos() - low * angle.sin()}, 2);
}

struct Statistics {
  at::Tensor mean;        // [n_heads, head_dim]
  at::Tensor covariance;  // [n_heads, head_dim, head_dim]
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
  void after_prompt(int prompt_len, StepFacts* facts) override;
  void after_step(int prompt_len, int n_tokens, StepFacts* facts) override;
  /// By the statistics of the newest queries, whatever `interval` says.
  void after_chunk(int n_tokens, StepFacts* facts) override;
  bool accepts(const PolicySpec& next) const override;

 private:
  /// n_more: tokens that come before anything leaves again.
  void compress(int n_tokens, int n_more, bool of_prompt, StepFacts* facts);
  Statistics statistics(int layer, int n_tokens, bool of_prompt) const;
  at::Tensor scores(int layer, const OrderedLayer& tokens, int n_tokens, bool of_prompt) const;

  const PolicySpec& spec() const { return state_.policy.spec(); }
  int n_sink() const { return state_.policy.geometry().n_sink; }

  static constexpr int kObserved = 256;  // newest queries that the statistics are of, unless a prompt has just passed
  QueryRing ring_;
  /// Of the prompt's n_queries_ queries before rotation: sum and sum of outer products, [n_layers, n_heads, head_dim (,
  /// head_dim)] float32.
  at::Tensor query_sum_, query_outer_;
  std::int64_t n_queries_ = 0;
};

ExpectedAttention::ExpectedAttention(SequenceState& state) : AttentionMethod(state), ring_(state, kObserved) {
  const ModelConfig& config = state.model.config();
  require_plain_attention(config, "ExpectedAttention's estimate of it");
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

void ExpectedAttention::compress(int n_tokens, int n_more, bool of_prompt, StepFacts* facts) {
  keep_best(
      state_, {.n_tokens = n_tokens, .fixed_from = n_tokens, .n_more = n_more, .with_values = true},
      [&](int layer, const OrderedLayer& tokens) { return scores(layer, tokens, n_tokens, of_prompt); }, facts);
}

Statistics ExpectedAttention::statistics(int layer, int n_tokens, bool of_prompt) const {
  if (of_prompt) return of_sums(query_sum_[layer], query_outer_[layer], static_cast<double>(n_queries_));
  // The sinks' own are among them while the text is short.
  const int n_queries = std::clamp(n_tokens - n_sink(), 0, kObserved);
  const auto [rotated, position] = ring_.newest(layer, n_queries, n_tokens);
  const at::Tensor q = unrotated(rotated, position, state_.model.weights().layers[layer]).transpose(0, 1);
  return of_sums(q.sum(1), at::bmm(q.transpose(1, 2), q), static_cast<double>(q.size(1)));
}

at::Tensor ExpectedAttention::scores(int layer, const OrderedLayer& tokens, int n_tokens, bool of_prompt) const {
  const bool with_covariance = spec().value("covariance") == 1, with_values = spec().value("values") == 1;
  const double epsilon = spec().value("epsilon");
  const ModelConfig& config = state_.model.config();
  const Statistics seen = statistics(layer, n_tokens, of_prompt);
  const at::Tensor rotation = mean_rotation(state_.model.weights().layers[layer], n_tokens, spec().count("future"));
  const at::Tensor mean = at::matmul(seen.mean, rotation.t());
  const at::Tensor covariance = at::matmul(at::matmul(rotation, seen.covariance), rotation.t());
  const double root = 1 / config.attention_scale(layer);  // sqrt(d): dividing by it rounds once, as in the paper's code
  at::Tensor out = at::zeros({config.n_kv_heads, tokens.most()}, tokens.k.options().dtype(at::kFloat));
  for (int head = 0; head < config.n_kv_heads; ++head) {
    const auto& positions = tokens.positions[static_cast<std::size_t>(head)];
    const auto n = static_cast<std::int64_t>(positions.size());
    const std::int64_t n_sinks = std::lower_bound(positions.begin(), positions.end(), n_sink()) - positions.begin();
    if (n == n_sinks) continue;
    const int group = config.group_size();
    const at::Tensor k = tokens.k[head].narrow(0, n_sinks, n - n_sinks).to(at::kFloat);
    at::Tensor logits = at::matmul(mean.narrow(0, head * group, group), k.t()) / root;  // [group, n - n_sinks]
    if (with_covariance) {
      const at::Tensor of_head = covariance.narrow(0, head * group, group);
      logits = logits + (at::matmul(k.unsqueeze(0), of_head) * k.unsqueeze(0)).sum(2) / (2 * root * root);
    }
    at::Tensor score = logits.softmax(-1).mean(0);
    if (with_values) {
      score = (score + epsilon) * tokens.v[head].narrow(0, n_sinks, n - n_sinks).to(at::kFloat).norm(2, -1);
    }
    out[head].narrow(0, n_sinks, n - n_sinks).copy_(score);
  }
  return out;
}

}  // namespace

std::unique_ptr<AttentionMethod> make_expected_attention(SequenceState& state) {
  return std::make_unique<ExpectedAttention>(state);
}

}  // namespace kvscope::engine
