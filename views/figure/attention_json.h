#pragma once
// The attention of a token as a recipe has it, since no trace does.
//
//   {"layer": 12, "token": 40, "heads": [[p at query 40, at 41, ...] of each query head of the model]}

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/record/token_attention.h"

namespace kvscope::views {

nlohmann::ordered_json to_json(const TokenAttention& attention);
/// Throws Error (bad input) that names file and key for anything else, shares outside [0, 1] among it.
std::shared_ptr<const TokenAttention> parse_attention(const nlohmann::json& json, const std::string& file,
                                                      const std::string& key);

}  // namespace kvscope::views
