#pragma once
// What kvscope score --attention --json has printed, as a figure of one token (WG-KV Fig. 3) wants it.

#include <memory>
#include <span>
#include <string>

#include "engine/core/record/token_attention.h"

namespace kvscope::app {

/// Throws Error (bad input) that names the file: not that output, or of no token or of several; another text than `ids`, of which
/// it must be the beginning.
std::shared_ptr<const TokenAttention> read_scored_attention(const std::string& path, std::span<const std::int32_t> ids);

}  // namespace kvscope::app
