#pragma once
// An evaluation without a model: every answer follows from who asks what.

#include <functional>
#include <nlohmann/json.hpp>

namespace kvscope::fake {

/// Tells facts and answers as the engine's job does, the dense policy first. `stop` is asked before each answer; false if it said
/// so. Throws Error for a policy that is none, and for one whose budget is below its window at 64 tokens.
bool play_eval(const nlohmann::json& args, const std::function<void(const nlohmann::json& data)>& row,
               const std::function<bool()>& stop);

}  // namespace kvscope::fake
