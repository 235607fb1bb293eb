#include "engine/jobs/tasks/scored_decoding.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cmath>

#include "engine/core/support/random.h"
#include "engine/decode/oracle_pass.h"
#include "engine/model/ops.h"
#include "engine/model/transformer.h"

namespace kvscope::engine {
namespace {

/// Attention over all keys so far, under lifetimes that are known in advance.
class LifetimeSite final : public AttentionSite {
 public:
  LifetimeSite(const LoadedModel& model, const LifetimeMap& lifetimes, std::int64_t capacity) {
    const auto& config = model.config();
    for (int layer = 0; layer < config.n_layers; ++layer) {
      const auto options = at::TensorOptions(model.weights().device).dtype(model.weights().dtype);
      keys_.push_back(at::empty({capacity, config.n_kv_heads, config.head_dim}, options));
      values_.push_back(at::empty_like(keys_.back()));
      at::Tensor rows = at::empty({config.n_kv_heads, capacity}, at::kInt);
      for (int head = 0; head < config.n_kv_heads; ++head) {
        const auto& row = lifetimes.row(layer, head);
        std::copy_n(row.begin(), capacity, rows.data_ptr<std::int32_t>() + head * capacity);
      }
      evict_at_.push_back(rows.to(options.device()));
    }
  }

  /// Where the tokens of the next pass stand.
  void begin(std::int64_t position) { position_ = position; }

  at::Tensor attend(int layer, const LayerTokens& tokens) override {
    const at::Tensor &q = tokens.q, &k = tokens.k, &v = tokens.v;
    const auto end = position_ + q.size(0);
    keys_[layer].narrow(0, position_, q.size(0)).copy_(k);
    values_[layer].narrow(0, position_, q.size(0)).copy_(v);
    return ops::lifetime_attention(
        q,
        {keys_[layer].narrow(0, 0, end).transpose(0, 1), values_[layer].narrow(0, 0, end).transpose(0, 1),
         evict_at_[layer].narrow(1, 0, end).contiguous()},
        position_, tokens.scale);
  }

 private:
  std::vector<at::Tensor> keys_, values_;  // [capacity, n_kv_heads, head_dim] a layer
  std::vector<at::Tensor> evict_at_;       // [n_kv_heads, capacity] int32 a layer
  std::int64_t position_ = 0;
};

}  // namespace

HeadSeries<float> random_scores(const ModelConfig& config, int n, std::uint64_t seed) {
  HeadSeries<float> scores(config.n_layers, config.n_kv_heads);
  for (int layer = 0; layer < config.n_layers; ++layer) {
    for (int head = 0; head < config.n_kv_heads; ++head) {
      Random random(seed, static_cast<std::uint64_t>(layer) * config.n_kv_heads + head);
      auto& row = scores.row(layer, head);
      for (int i = 0; i < n; ++i) row.push_back(static_cast<float>(random.uniform()));
    }
  }
  return scores;
}

HeadSeries<float> oracle_scores(const LoadedModel& model, std::span<const std::int32_t> ids, int window) {
  HeadSeries<float> scores = oracle_targets(model, ids, OracleSpec::parse("kinds=one"), window);
  const float none = std::log(1e-6f);
  for (int layer = 0; layer < scores.n_layers(); ++layer) {
    for (int head = 0; head < scores.n_kv_heads(); ++head) {
      for (float& value : scores.row(layer, head)) value = std::isnan(value) ? none : value;
    }
  }
  return scores;
}

LifetimeMap scored_lifetimes(const HeadSeries<float>& scores, const RetentionGeometry& geometry) {
  LifetimeMap lifetimes(scores.n_layers(), scores.n_kv_heads());
  for (int layer = 0; layer < scores.n_layers(); ++layer) {
    for (int head = 0; head < scores.n_kv_heads(); ++head) {
      const auto& row = scores.row(layer, head);
      lifetimes.row(layer, head).resize(row.size());
      running_top_k(row, geometry, static_cast<std::int32_t>(row.size()), lifetimes.row(layer, head));
    }
  }
  return lifetimes;
}

bool answers_under(const LoadedModel& model, const LifetimeMap& lifetimes, std::span<const std::int32_t> prompt,
                   std::span<const std::int32_t> answer) {
  const c10::InferenceMode no_gradients;
  LifetimeSite site(model, lifetimes, static_cast<std::int64_t>(prompt.size() + answer.size()));
  std::int64_t position = 0;
  const auto pass = [&](std::span<const std::int32_t> ids) {  // -> the likeliest next token
    site.begin(position);
    const at::Tensor tokens = ids_tensor(model.weights(), ids.data(), static_cast<std::int64_t>(ids.size()));
    const at::Tensor hidden = forward(model.config(), model.weights(), tokens, position, site);
    position += static_cast<std::int64_t>(ids.size());
    return logits_of(model.weights(), hidden.narrow(0, hidden.size(0) - 1, 1)).argmax(-1).item<std::int64_t>();
  };
  std::int64_t next = pass(prompt);
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (next != answer[i]) return false;
    if (i + 1 < answer.size()) next = pass(answer.subspan(i, 1));
  }
  return true;
}

}  // namespace kvscope::engine
