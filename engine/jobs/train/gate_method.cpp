#include "engine/jobs/train/gate_method.h"

#include <algorithm>
#include <array>

namespace kvscope::engine {

std::span<const GateMethod> gate_methods() {
  static const std::array kMethods = {wg_kv_method(), sp_kv_method(), dms_method()};
  return kMethods;
}

const GateMethod* find_gate_method(std::string_view name) {
  const auto methods = gate_methods();
  const auto found = std::ranges::find(methods, name, &GateMethod::name);
  return found == methods.end() ? nullptr : &*found;
}

}  // namespace kvscope::engine
