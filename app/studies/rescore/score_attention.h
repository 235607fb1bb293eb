#pragma once
// kvscope score --attention: what every query of a text gives to chosen tokens in one layer.

#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/record/token_attention.h"

namespace kvscope::app {

/// "LAYER:TOKEN,TOKEN..." without ids. Throws Error (usage) for anything else, a token twice or too many.
TokenAttentionRequest attention_request(const std::string& text);

/// {layer, tokens: [{token, heads: [[p of query token, of token + 1 ...] of each query head]}]}
nlohmann::ordered_json attention_json(const TokenAttention& attention);

/// A row a token and query head: mean over the later queries, greatest share and the query that gives it.
std::string attention_table(const TokenAttention& attention);

}  // namespace kvscope::app
