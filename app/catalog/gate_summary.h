#pragma once
// What there is to say of a gate, for the commands that do.

#include <nlohmann/json.hpp>

#include "engine/core/files/gate/gate_file.h"

namespace kvscope::app {

/// Kind, shapes, numbers, and under "policy_defaults" the parameters of each policy that reads it which are the gate's
/// where nobody writes others: {"sp-kv": "threshold=0.9,strict=0,sinks=0,window=128", ...}.
nlohmann::ordered_json gate_summary(const GateFile& gate);

}  // namespace kvscope::app
