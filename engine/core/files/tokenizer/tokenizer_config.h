#pragma once
// What stands beside tokenizer.json: tokenizer_config.json, special_tokens_map.json and added_tokens.json.

#include <filesystem>
#include <string>
#include <vector>

#include "engine/core/files/tokenizer/added_vocabulary.h"
#include "engine/core/files/tokenizer/tokenizer_json.h"

namespace kvscope {

/// Adds to `vocabulary` the tokens that only these files name, as transformers 5 does: `added_tokens_decoder`, named
/// tokens (`bos_token`, `image_token` ...) and `additional_special_tokens` or `extra_special_tokens`; the two other files
/// count where there is no added_tokens_decoder. `spec` is the folder's tokenizer.json, whose tokens are in `vocabulary`.
///
/// Appends a line to `warnings` for whatever could give other ids than transformers or an older version of it: settings
/// that are not understood, add_bos_token that nobody follows, files that cannot be read.
void add_configured_tokens(const std::filesystem::path& folder, const TokenizerJson& spec, const TokenIds& ids,
                           AddedVocabulary& vocabulary, std::vector<std::string>& warnings);

}  // namespace kvscope
