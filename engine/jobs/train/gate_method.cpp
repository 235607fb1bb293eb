#include "engine/jobs/train/gate_method.h"

#include <algorithm>
#include <array>

#include "engine/core/support/error.h"

namespace kvscope::engine {

std::span<const GateMethod> gate_methods() {
  static const std::array kMethods = {wg_kv_method(), sp_kv_method(), dms_method()};
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
