#include "engine/jobs/train/scorer_module.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace kvscope::engine {
namespace {

std::vector<FlatParameters::Spec> parameter_specs(std::int64_t n_layers, std::int64_t n_kv_heads, std::int64_t dim) {
  const auto spec = [&](const char* name, std::vector<std::int64_t> tail) {
    tail.insert(tail.begin(), {n_layers, n_kv_heads});
    return FlatParameters::Spec{name, std::move(tail), true};
  };
  return {spec("wq", {2 * dim, dim / 2}),
          spec("wk", {2 * dim, dim / 2}),
          spec("wv", {2 * dim, dim}),
          spec("gi", {2 * dim, 1}),
          spec("gf", {2 * dim, 1}),
          spec("bi", {1}),
          spec("bf", {1}),
          spec("out", {3 * dim}),
          spec("b", {})};
}

at::Tensor feature_map(const at::Tensor& z) { return at::cat({z.softmax(-1), (-z).softmax(-1)}, -1); }

/// x [HK, B, N, in] times weight [HK, in, out], one product a head.
at::Tensor project(const at::Tensor& x, const at::Tensor& weight) {
  return at::bmm(x.flatten(1, 2), weight).view({x.size(0), x.size(1), x.size(2), weight.size(2)});
}

}  // namespace

ScorerModule::ScorerModule(int n_layers, int n_kv_heads, int head_dim, int delay, at::Device device)
    : head_dim_(head_dim),
      delay_(delay),
      parameters_(parameter_specs(n_layers, n_kv_heads, head_dim), device, at::kFloat) {}

void ScorerModule::initialise(std::uint64_t seed) {
  const double deviation = 1 / std::sqrt(2.0 * head_dim_);
  parameters_.initialise(seed, [&](const FlatParameters::Spec& spec) -> FlatParameters::Start {
    if (spec.name.starts_with("w") || spec.name.starts_with("g")) return {.deviation = deviation};
    return {.constant = spec.name == "bf" ? 4.0 : 0.0};  // sigmoid(4) = 0.98: the memory starts out long
  });
}

at::Tensor ScorerModule::scores(int layer, const at::Tensor& k, const at::Tensor& v, const at::Tensor& tokens) const {
  const auto p = [&](const char* name) { return parameters_[name].select(0, layer); };
  const at::Tensor x =
      at::cat({k, v}, -1).detach().to(at::kFloat).permute({2, 0, 1, 3}).contiguous();  // [HK, B, T, 2D]
  const auto n_positions = x.size(2);
  const at::Tensor rows = x.gather(2, tokens.unsqueeze(-1).expand({-1, -1, -1, x.size(3)}));  // [HK, B, R, 2D]

  const at::Tensor query = feature_map(project(rows, p("wq")));                         // [HK, B, R, D]
  const at::Tensor key = feature_map(project(x, p("wk")));                              // [HK, B, T, D]
  const at::Tensor value = project(x, p("wv"));                                         // [HK, B, T, D]
  const at::Tensor log_input = project(x, p("gi")).squeeze(-1) + p("bi").unsqueeze(1);  // [HK, B, T]
  const at::Tensor log_forget = at::log_sigmoid(project(x, p("gf")).squeeze(-1) + p("bf").unsqueeze(1)).cumsum(-1);

  const at::Tensor last = (tokens + delay_).clamp_max(n_positions - 1);  // e of each row, [HK, B, R]
  at::Tensor log_weight =
      log_forget.gather(2, last).unsqueeze(-1) + (log_input - log_forget).unsqueeze(2);  // [HK,B,R,T]
  const at::Tensor after = at::arange(n_positions, tokens.options()) > last.unsqueeze(-1);
  log_weight = log_weight.masked_fill(after, -std::numeric_limits<double>::infinity());
  const at::Tensor weight = (log_weight - log_weight.detach().amax(-1, /*keepdim=*/true)).exp();
  const at::Tensor read = at::matmul(query, key.transpose(-1, -2)) * weight;
  const at::Tensor h = at::matmul(read, value) / read.sum(-1, /*keepdim=*/true).clamp_min(1e-6);

  const at::Tensor out = p("out").unsqueeze(1).unsqueeze(1);  // [HK, 1, 1, 3D]
  return (at::silu(h) * out.narrow(-1, 0, head_dim_)).sum(-1) +
         (rows * out.narrow(-1, head_dim_, 2 * head_dim_)).sum(-1) + p("b").unsqueeze(1).unsqueeze(1);
}

at::Tensor ScorerModule::scores(int layer, const at::Tensor& k, const at::Tensor& v) const {
  const auto index = at::TensorOptions(k.device()).dtype(at::kLong);
  return scores(layer, k, v, at::arange(k.size(1), index).expand({k.size(2), k.size(0), -1}).contiguous());
}

}  // namespace kvscope::engine
