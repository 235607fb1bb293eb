#include "engine/jobs/train/flat_parameters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "engine/core/support/random.h"

namespace kvscope::engine {

FlatParameters::FlatParameters(std::vector<Spec> specs, at::Device device, at::ScalarType compute_type, bool trained)
    : specs_(std::move(specs)) {
  std::stable_partition(specs_.begin(), specs_.end(), [](const Spec& spec) { return spec.decayed; });
  std::int64_t offset = 0;
  for (const auto& spec : specs_) {
    const auto n = std::accumulate(spec.shape.begin(), spec.shape.end(), std::int64_t{1}, std::multiplies<>());
    where_[spec.name] = {offset, n};
    shapes_[spec.name] = spec.shape;
    offset += n;
    if (spec.decayed) n_decayed_ = offset;
  }
  masters_ = at::zeros({offset}, at::TensorOptions(device).dtype(trained ? at::kFloat : compute_type));
  values_ =
      masters_.scalar_type() == compute_type ? masters_ : at::zeros({offset}, masters_.options().dtype(compute_type));
  if (trained) gradients_ = at::zeros_like(values_);
  for (const auto& spec : specs_) {
    const auto [begin, n] = where_.at(spec.name);
    at::Tensor leaf = values_.narrow(0, begin, n).view(spec.shape).detach();
    leaves_[spec.name] = leaf;
    if (!trained) continue;
    leaf.set_requires_grad(true);
    // A gradient that is already there is added to in place (backward runs with gradient recording off), so the
    // buffer always holds the sum.
    leaf.mutable_grad() = gradients_.narrow(0, begin, n).view(spec.shape);
  }
}

at::Tensor FlatParameters::master(const std::string& name) const {
  const auto [begin, n] = where_.at(name);
  return masters_.narrow(0, begin, n).view(shapes_.at(name));
}

void FlatParameters::initialise(std::uint64_t seed, const std::function<Start(const Spec&)>& start) {
  std::uint64_t stream = 0;
  for (const Spec& spec : specs_) {
    const Start from = start(spec);
    at::Tensor values = at::full(spec.shape, from.constant, at::kFloat);
    if (from.deviation > 0) {
      Random random(seed, stream);
      float* out = values.data_ptr<float>();
      for (std::int64_t i = 0; i < values.numel(); ++i) out[i] = static_cast<float>(from.deviation * random.normal());
    }
    master(spec.name).copy_(values);
    ++stream;
  }
  publish();
}

void FlatParameters::publish() {
  if (!values_.is_same(masters_)) values_.copy_(masters_);
}

void FlatParameters::zero_gradients() { gradients_.zero_(); }

at::Tensor FlatParameters::gradients() const { return gradients_.to(at::kFloat); }

}  // namespace kvscope::engine
