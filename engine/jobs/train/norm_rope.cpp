#include "engine/jobs/train/norm_rope.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace kvscope::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// y * cos + swap(y) * sin; with `back`, the transposed rotation y * cos + swap(y * sin).
at::Tensor rotate(const at::Tensor& y, const at::Tensor& cos, const at::Tensor& sin, bool back) {
  const auto half = y.size(-1) / 2;
  const auto halves = [half](const at::Tensor& t) {
    return std::pair(t.narrow(-1, 0, half), t.narrow(-1, half, half));
  };
  const auto [y1, y2] = halves(y);
  const auto [sin1, sin2] = halves(sin);
  at::Tensor out = at::empty_like(y);
  at::mul_out(out, y, cos);
  auto [out1, out2] = halves(out);
  out1.addcmul_(y2, back ? sin2 : sin1);
  out2.addcmul_(y1, back ? sin1 : sin2);
  return out;
}

class NormRope : public torch::autograd::Function<NormRope> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gain,
                            const at::Tensor& cos, const at::Tensor& sin, double eps) {
    const auto dim = x.size(-1);
    const at::Tensor norm = at::linalg_vector_norm(x, 2, at::IntArrayRef{-1}, /*keepdim=*/true, at::kFloat);
    const at::Tensor scale = norm.square().div_(static_cast<double>(dim)).add_(eps).rsqrt_();  // [B, T, H, 1]
    at::Tensor y = at::empty_like(x);
    at::mul_out(y, x, scale);
    // The gain goes into the tables: [T, 1, D] is nothing beside x.
    const at::Tensor gain_f = gain.to(at::kFloat);
    const at::Tensor out =
        rotate(y, (cos * gain_f).to(x.scalar_type()), (sin * gain_f.roll(dim / 2)).to(x.scalar_type()), false);
    context->save_for_backward({y, scale, gain, cos, sin});
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &y = saved[0], &scale = saved[1], &gain = saved[2];
    const auto type = y.scalar_type();
    const auto dim = y.size(-1);
    // e = gradient of y * gain; dy = e * gain; dx = scale * (dy - y * mean(dy * y))
    at::Tensor e = rotate(gradients[0].contiguous(), saved[3].to(type), saved[4].to(type), true);
    const at::Tensor product = e * y;
    const at::Tensor gain_gradient =
        product.sum(at::IntArrayRef{0, 1, 2}, /*keepdim=*/false, at::kFloat).to(gain.scalar_type());
    const at::Tensor mean = at::matmul(product, gain).unsqueeze(-1).div_(static_cast<double>(dim));  // [B, T, H, 1]
    e.mul_(gain).addcmul_(y, mean, -1).mul_(scale);
    return {e, gain_gradient, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

class Rope : public torch::autograd::Function<Rope> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return rotate(x.to(at::kFloat), cos, sin, false).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor back = rotate(gradients[0].to(at::kFloat).contiguous(), saved[0], saved[1], true);
    return {back.to(gradients[0].scalar_type()), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

RotaryTable RotaryTable::make(int n_positions, const RopeFrequencies& frequencies, at::Device device) {
  const at::Tensor frequency = at::tensor(frequencies.inv_freq, at::kFloat);
  const at::Tensor angle = at::outer(at::arange(n_positions, at::kFloat), frequency);  // [T, D/2]
  const at::Tensor cos = angle.cos() * frequencies.attention_scaling, sin = angle.sin() * frequencies.attention_scaling;
  return {at::cat({cos, cos}, -1).unsqueeze(1).to(device), at::cat({-sin, sin}, -1).unsqueeze(1).to(device)};
}

at::Tensor rope(const at::Tensor& x, const RotaryTable& table) {
  const auto n_positions = x.size(1);
  return Rope::apply(x, table.cos.narrow(0, 0, n_positions), table.sin.narrow(0, 0, n_positions));
}

at::Tensor norm_rope(const at::Tensor& x, const at::Tensor& gain, const RotaryTable& table, double eps) {
  const auto n_positions = x.size(1);
  return NormRope::apply(x, gain, table.cos.narrow(0, 0, n_positions), table.sin.narrow(0, 0, n_positions), eps);
}

}  // namespace kvscope::engine
