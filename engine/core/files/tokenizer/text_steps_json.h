#pragma once
// normalizer, pre_tokenizer and decoder of tokenizer.json, checked.

#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/files/tokenizer/text_steps.h"

namespace kvscope {

/// `root` is the file's top level, an object. Throws Error naming the key for what is malformed or not supported, alone
/// or together.
TextSteps read_text_steps(const nlohmann::json& root, const std::string& file);

}  // namespace kvscope
