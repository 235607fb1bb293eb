#include "engine/core/tokenizer/chat.h"

#include <string>

#include "engine/core/support/error.h"

namespace kvscope {

bool has_chatml(const Tokenizer& tokenizer) {
  return tokenizer.added_token("<|im_start|>") && tokenizer.added_token("<|im_end|>");
}

std::vector<std::int32_t> chat_prompt(const Tokenizer& tokenizer, std::string_view message) {
  const auto start = tokenizer.added_token("<|im_start|>"), end = tokenizer.added_token("<|im_end|>");
  if (!start || !end) {
    throw Error({.code = ExitCode::usage,
                 .found = "the model's tokenizer has no chat tokens",
                 .expected = "<|im_start|> and <|im_end|>",
                 .hint = "give the prompt as raw text"});
  }
  std::vector<std::int32_t> ids{*start};
  const auto append = [&](std::string_view text) {
    const std::vector<std::int32_t> more = tokenizer.encode(text, false);
    ids.insert(ids.end(), more.begin(), more.end());
  };
  // In one piece: line ends at the message's start go into the same word as the one before it.
  append("user\n" + std::string(message));
  ids.push_back(*end);
  append("\n");
  ids.push_back(*start);
  append("assistant\n");
  return ids;
}

}  // namespace kvscope
