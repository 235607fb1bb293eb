#pragma once
// A run's request as JSON: what the wire and a trace have in common.

#include <nlohmann/json.hpp>

#include "engine/core/record/run_request.h"

namespace kvscope {

/// All of a request but its prompt and its lists of numbers, which wire and trace write in ways of their own.
nlohmann::json request_json(const RunRequest& request);
/// Throws Error that names the field.
RunRequest request_of_json(const nlohmann::json& object, const DeclaredPolicy* own = nullptr);

nlohmann::json changes_json(const std::vector<PolicyChange>& changes);
std::vector<PolicyChange> changes_of_json(const nlohmann::json& list, const DeclaredPolicy* own = nullptr);

}  // namespace kvscope
