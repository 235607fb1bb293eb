#include "tests/engine/plain_layer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/model/transformer.h"

namespace kvscope::test {
namespace {

Rows rows(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  const at::Tensor x = tensor.to(at::kDouble).cpu().contiguous();
  return {.n_heads = x.dim() == 3 ? static_cast<int>(x.size(1)) : 1,
          .dim = static_cast<int>(x.size(-1)),
          .values = {x.data_ptr<double>(), x.data_ptr<double>() + x.numel()}};
}

}  // namespace

PlainLayer plain_layer(const engine::LayerTokens& tokens) {
  return {rows(tokens.x), rows(tokens.input), rows(tokens.q_unrotated), rows(tokens.k_unrotated),       rows(tokens.q),
          rows(tokens.k), rows(tokens.v),     tokens.scores.scale,      rows(tokens.scores.sink).values};
}

namespace {

/// Dense attention in loops, which keeps what it was given.
class CaptureHook final : public engine::AttentionHook {
 public:
  bool reads_unrotated() const override { return true; }
  at::Tensor attend(int, const engine::LayerTokens& tokens) override {
    layers.push_back(plain_layer(tokens));
    const PlainLayer& layer = layers.back();
    at::Tensor out = at::zeros(tokens.q.sizes(), at::kFloat);
    float* o = out.data_ptr<float>();
    std::vector<int> keys;
    for (int query = 0; query < tokens.q.size(0); ++query) {
      keys.push_back(query);
      if (tokens.window > 0 && static_cast<int>(keys.size()) > tokens.window) keys.erase(keys.begin());
      for (int head = 0; head < layer.q.n_heads; ++head, o += layer.v.dim) {
        const std::vector<double> p = attention(layer, query, head, keys);
        for (int c = 0; c < layer.v.dim; ++c) {
          double sum = 0;
          for (std::size_t i = 0; i < keys.size(); ++i) sum += p[i] * layer.v.at(keys[i], head / layer.group_size())[c];
          o[c] = static_cast<float>(sum);
        }
      }
    }
    return out;
  }
  std::vector<PlainLayer> layers;
};

}  // namespace

std::vector<PlainLayer> dense_layers(const engine::LoadedModel& model, const std::vector<std::int32_t>& ids) {
  CaptureHook hook;
  const auto n = static_cast<std::int64_t>(ids.size());
  engine::forward(model.config(), model.weights(), engine::ids_tensor(model.weights(), ids.data(), n), 0, hook);
  return hook.layers;
}

double dot(const double* a, const double* b, int n) { return std::inner_product(a, a + n, b, 0.0); }

double weight_of(const engine::AttentionScores& scores, double product) {
  const double score = scores.scale * product, cap = scores.soft_cap;
  return std::exp(cap > 0 ? cap * std::tanh(score / cap) : score);
}

double sink_weight(const engine::AttentionScores& scores, int head) {
  return scores.sink.defined() ? std::exp(scores.sink[head].item<double>()) : 0;
}

double sink_weight(const PlainLayer& layer, int head) {
  return layer.sink.empty() ? 0 : std::exp(layer.sink[static_cast<std::size_t>(head)]);
}

std::vector<double> attention(const PlainLayer& layer, int query, int head, const std::vector<int>& keys) {
  std::vector<double> p;
  double sum = sink_weight(layer, head);
  for (const int t : keys) {
    const double logit =
        layer.scale * dot(layer.q.at(query, head), layer.k.at(t, head / layer.group_size()), layer.q.dim);
    p.push_back(t > query ? 0 : std::exp(logit));  // logits of random models are small
    sum += p.back();
  }
  for (double& one : p) one /= sum;
  return p;
}

std::vector<int> greatest(const std::vector<double>& worth, int n) {
  std::vector<int> order(worth.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return worth[static_cast<std::size_t>(a)] > worth[static_cast<std::size_t>(b)];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(std::max(0, n))));
  return order;
}

}  // namespace kvscope::test
