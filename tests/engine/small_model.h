#pragma once
// Small random models and runs of them, for tests.

#include <string>
#include <vector>

#include "engine/decode/generation.h"
#include "engine/decode/run.h"

namespace kvscope::test {

/// 2 layers of 4 query and 2 KV heads of 64 features, vocabulary 512, context 1024.
ModelConfig small_config();

/// The same with attention that is not plain: a soft cap of 1 on its scores (their deviation is about 1) and sink logits
/// in layer 0, sink logits alone in layer 1.
ModelConfig small_variant_config();

/// A model of that shape whose scorer reads after `scorer_window` tokens. Float32.
engine::LoadedModel small_model(std::uint64_t seed = 1, int scorer_window = 16, const std::string& device = "cpu");

/// Ids that look random and are the same everywhere.
std::vector<std::int32_t> some_ids(int n, int vocab_size = 512, std::uint64_t seed = 1);

/// A request for these ids under this policy; no oracle, no stop at the end of text.
RunRequest request(std::vector<std::int32_t> ids, const std::string& policy, int max_tokens = 0);

/// A record of `ids` under `policy`: the first `prompt_len` are prefilled, the others are fed one by one. n_positions
/// is the same however they are divided, so that shares of it are too.
struct Fed {
  RunRecord record;
  std::vector<float> logits;                    // after the last token
  std::vector<std::vector<std::int32_t>> kept;  // [layer * n_kv_heads + kv_head] positions in the cache, ascending
};
Fed feed(const engine::LoadedModel& model, const std::vector<std::int32_t>& ids, int prompt_len,
         const std::string& policy, const engine::PrefillOptions& options = {});

/// max |a - b| / max |b|.
double relative_difference(std::span<const float> a, std::span<const float> b);

}  // namespace kvscope::test
