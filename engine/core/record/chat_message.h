#pragma once
// What is said in a chat, and how a model's template is asked to write it. engine/core/files/tokenizer/chat.h writes it.

#include <optional>
#include <string>

namespace kvscope {

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
  bool operator==(const ChatMessage&) const = default;
};

struct ChatOptions {
  std::optional<bool> thinking;       // enable_thinking, thinking; nothing: as the template does by itself
  bool add_generation_prompt = true;  // begin the assistant's answer
  // Of a template that has one ("26 Jul 2024"); empty: the template's own. Never the clock's: runs repeat.
  std::string date;
};

}  // namespace kvscope
