#pragma once
// Parameters as views of one buffer, so that casting, clipping and AdamW are a few large operations, not hundreds.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kvscope::engine {

/// Float32 master weights [n_elements] and, in the type of the computation, leaves for autograd that are views of a
/// second buffer (the same one if that type is float32). Gradients add up in a third buffer of the leaves' type.
/// Decayed parameters (matrices) come first: [0, n_decayed) has weight decay, [n_decayed, n_elements) has none.
class FlatParameters {
 public:
  struct Spec {
    std::string name;
    std::vector<std::int64_t> shape;
    bool decayed;
  };
  /// Not `trained`: the leaves ask for no gradient, and there is one buffer, in compute_type.
  FlatParameters(std::vector<Spec> specs, at::Device device, at::ScalarType compute_type, bool trained = true);

  /// The leaf: read it in the forward pass; backward adds to its gradient.
  const at::Tensor& operator[](const std::string& name) const { return leaves_.at(name); }
  /// The float32 values of one parameter, a view (in compute_type if it is not trained). After writing to it call publish().
  at::Tensor master(const std::string& name) const;
  const std::vector<Spec>& specs() const { return specs_; }

  /// How a parameter begins: normal of this deviation, or, where that is 0, all `constant`.
  struct Start {
    double constant = 0, deviation = 0;
  };
  /// Fills all masters from `seed`, parameter n from its stream n, and publishes them: the same numbers on every machine.
  void initialise(std::uint64_t seed, const std::function<Start(const Spec&)>& start);

  /// Copies the masters to the leaves. Call after every change of the masters.
  void publish();
  void zero_gradients();
  /// What has added up, in the leaves' type: the buffer itself, not a copy.
  const at::Tensor& gradient_sums() const { return gradients_; }
  /// All gradients in float32, [n_elements].
  at::Tensor gradients() const;

  at::Tensor& masters() { return masters_; }
  std::int64_t n_elements() const { return masters_.numel(); }
  std::int64_t n_decayed() const { return n_decayed_; }

 private:
  std::vector<Spec> specs_;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> where_;  // name -> offset, elements
  std::map<std::string, std::vector<std::int64_t>> shapes_;
  std::int64_t n_decayed_ = 0;
  at::Tensor masters_, values_, gradients_;
  std::map<std::string, at::Tensor> leaves_;
};

}  // namespace kvscope::engine
