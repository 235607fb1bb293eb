#pragma once
// A message to a chat model, in ChatML.

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/core/tokenizer/tokenizer.h"

namespace kvscope {

/// True if the tokenizer has <|im_start|> and <|im_end|>.
bool has_chatml(const Tokenizer& tokenizer);

/// <|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n as Qwen's template makes it, except that special
/// tokens a person typed in `message` stay text. Throws Error (usage) if the tokenizer has no ChatML.
std::vector<std::int32_t> chat_prompt(const Tokenizer& tokenizer, std::string_view message);

}  // namespace kvscope
