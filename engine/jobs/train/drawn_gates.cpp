#include "engine/jobs/train/drawn_gates.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>

namespace kvscope::engine {
namespace {

constexpr double kSmallestGate = 1e-6;     // its logarithm is finite, and its gradient is no more than 10^6
constexpr double kSmallestClosed = 1e-30;  // of a gate that is 0 or 1: none of it is left in any float

at::Tensor with_open_sinks(const at::Tensor& gate, int n_sink) {
  const auto n = std::min<std::int64_t>(n_sink, gate.size(2));
  if (n == 0) return gate;
  return at::cat({at::ones_like(gate.narrow(2, 0, n)), gate.narrow(2, n, gate.size(2) - n)}, 2);
}

}  // namespace

at::Tensor log_gates(const at::Tensor& gate, const GateForm& form) {
  if (form.binary) return (gate + kSmallestClosed).log();
  const at::Tensor soft = (gate + kSmallestGate).log();
  if (!form.sampled) return soft;
  const double least = form.least_probability;
  const at::Tensor drawn = with_open_sinks(at::bernoulli(gate.detach().clamp(least, 1 - least)), form.n_sink);
  return (drawn + kSmallestClosed).log() + soft - soft.detach();  // eq. 11: drawn ahead, soft on the way back
}

at::Tensor counted_gates(at::Tensor gate, const GateForm& form) {
  if (form.hard > 0) {
    gate = gate.detach();
    gate = gate + form.hard * ((gate >= form.open_from).to(at::kFloat) - gate);
  }
  return with_open_sinks(gate, form.n_sink);
}

}  // namespace kvscope::engine
