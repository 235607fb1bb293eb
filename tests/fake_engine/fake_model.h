#pragma once
// A model that is none: its tokens, scores and future mass come from a hash, so every run of a seed is the same one.
// What is done with the scores (lifetimes, contests, oracle) is the real thing.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/protocol/protocol.h"

namespace kvscope::fake {

/// The shape that every fake model has: 6 layers, 4 KV heads, head_dim 64, 2048 positions. One in a folder whose name
/// begins with "other" has other weights.
ModelInfo model_info(const std::string& path);

/// Words, numbers and single marks with the space before them, each a token.
void tokenize(const std::string& text, std::vector<std::int32_t>& ids, BytePool& pieces);
/// The n-th token of the answer to a prompt of that seed.
std::string answer_piece(std::uint64_t seed, int n);
std::int32_t token_id(std::string_view piece);

/// A raw score as a scorer might give it, about -4 to 4: tokens with digits high, early layers flat, heads of different
/// taste.
float score(int layer, int kv_head, int token, std::string_view piece);
/// Mean future attention in [0, 1], related to the score but not its function, so that recall is neither 0 nor 1.
float future_mass(int layer, int kv_head, int token, std::string_view piece);
/// -5 to 0.
float logprob(int token, std::int32_t id);

}  // namespace kvscope::fake
