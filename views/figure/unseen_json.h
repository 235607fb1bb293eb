#pragma once
// What a query could not see as a recipe has it, since no trace does.
//
//   {"query": 142, "layer": 3, "kv_head": 1, "held": [of token 0, 1 ... 142], "evicted": [likewise],
//    "missing": [[of each KV head] of each layer]}
//
// layer and kv_head are -1 where the shares are means over all of them; null is a head without a value.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/study/measure/unseen_attention.h"

namespace kvscope::views {

nlohmann::ordered_json to_json(const UnseenAttention& unseen);
/// Without what follows from the run. Throws Error (bad input) that names file and key for anything else, shares outside [0, 1]
/// among it.
std::shared_ptr<const UnseenAttention> parse_unseen(const nlohmann::json& json, const std::string& file,
                                                    const std::string& key);

}  // namespace kvscope::views
