#include "engine/jobs/train/gate_method.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "engine/core/support/error.h"
#include "engine/jobs/train/weighted_cross_entropy.h"

namespace kvscope::engine {

at::Tensor mean_next_token_nll(const GateLesson& lesson) {
  const auto n = lesson.next.numel();
  const at::Tensor share = at::full({n}, 1.0 / static_cast<double>(n), lesson.gates.options().requires_grad(false));
  return weighted_cross_entropy(lesson.student.flatten(0, 1), lesson.base.output(), lesson.next.reshape({-1}), share)
      .loss;
}

std::span<const GateMethod> gate_methods() {
  static const std::array kMethods = {wg_kv_method(), sp_kv_method(), dms_method(), streaming_method(), full_method()};
  return kMethods;
}

const GateMethod& find_gate_method(std::string_view name, const std::string& file) {
  const auto methods = gate_methods();
  const auto found = std::ranges::find(methods, name, &GateMethod::name);
  if (found != methods.end()) return *found;
  std::string list;
  for (const GateMethod& method : methods) list += (list.empty() ? "" : ", ") + std::string(method.name);
  throw Error({.file = file, .where = "gate.method", .found = std::string(name), .expected = "one of " + list});
}

}  // namespace kvscope::engine
