// The hand-written backward passes of the trainer against LibTorch's own differentiation of the plain formula.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "engine/jobs/train/norm_rope.h"
#include "engine/jobs/train/weighted_cross_entropy.h"

using namespace kvscope::engine;

namespace {

at::Tensor leaf(at::Tensor values) { return values.detach().clone().set_requires_grad(true); }

/// |a - b| at most `tolerance` of the largest |b|.
void require_close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  REQUIRE(a.sizes() == b.sizes());
  const double scale = std::max(1e-30, b.abs().max().item<double>());
  CHECK((a - b).abs().max().item<double>() / scale <= tolerance);
}

/// RMSNorm and RoPE as the papers write them, in operations that LibTorch differentiates.
at::Tensor plain_norm_rope(const at::Tensor& x, const at::Tensor& gain, double theta, double eps) {
  const auto n = x.size(1), dim = x.size(3);
  const at::Tensor y = x * (x.square().mean(-1, true) + eps).rsqrt() * gain;
  const at::Tensor frequency = at::pow(theta, at::arange(0, dim, 2, at::kFloat) * (-1.0 / dim));
  const at::Tensor angle = at::outer(at::arange(n, at::kFloat), frequency).repeat({1, 2}).unsqueeze(1);
  const auto halves = y.chunk(2, -1);
  return y * angle.cos() + at::cat({-halves[1], halves[0]}, -1) * angle.sin();
}

}  // namespace

TEST_CASE("norm_rope equals the plain formula, and so do its gradients") {
  at::manual_seed(1);
  const at::Tensor x_values = at::randn({2, 7, 3, 16}), gain_values = at::rand({16}) + 0.5;
  const at::Tensor seen = at::randn({2, 7, 3, 16});
  const at::Tensor x = leaf(x_values), gain = leaf(gain_values), plain_x = leaf(x_values),
                   plain_gain = leaf(gain_values);
  const at::Tensor out =
      norm_rope(x, gain, RotaryTable::make(9, kvscope::rope_frequencies(10000, 16, {}), at::kCPU), 1e-6);
  const at::Tensor plain = plain_norm_rope(plain_x, plain_gain, 10000, 1e-6);
  (out * seen).sum().backward();
  (plain * seen).sum().backward();
  // A handful of float32 operations a number: 1e-5 of the largest is some tens of roundings.
  require_close(out.detach(), plain.detach(), 1e-5);
  require_close(x.grad(), plain_x.grad(), 1e-5);
  require_close(gain.grad(), plain_gain.grad(), 1e-5);
}

TEST_CASE("weighted_cross_entropy equals the plain formula for every chunk size, and so do its gradients") {
  const auto chunk = GENERATE(1, 5, 16, 100);
  at::manual_seed(2);
  const at::Tensor hidden_values = at::randn({16, 8}), embedding_values = at::randn({11, 8});
  const at::Tensor target = at::randint(11, {16}, at::kLong), weight = at::rand({16});
  const at::Tensor hidden = leaf(hidden_values), embedding = leaf(embedding_values);
  const at::Tensor plain_hidden = leaf(hidden_values), plain_embedding = leaf(embedding_values);
  const auto result = weighted_cross_entropy(hidden, embedding, target, weight, chunk);
  const at::Tensor plain_nll =
      at::log_softmax(plain_hidden.matmul(plain_embedding.t()), -1).gather(1, target.unsqueeze(1)).squeeze(1).neg();
  // Times 3: the gradient that comes from behind must be passed on.
  (result.loss * 3).backward();
  ((plain_nll * weight).sum() * 3).backward();
  require_close(result.nll, plain_nll.detach(), 1e-5);
  require_close(hidden.grad(), plain_hidden.grad(), 1e-5);
  require_close(embedding.grad(), plain_embedding.grad(), 1e-5);
}
