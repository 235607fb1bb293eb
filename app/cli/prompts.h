#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/files/tokenizer/chat.h"

namespace kvscope::app {

struct Prompt {
  std::string text;                   // of a conversation, its last message
  std::vector<ChatMessage> messages;  // of a conversation; else empty
  std::string where;                  // file and line: "prompts.jsonl:7"; of a folder, the file
};

/// A conversation: a JSON list of {"role", "content"}. Throws Error naming `file`.
std::vector<ChatMessage> read_messages(std::string_view json, const std::string& file);

/// Prompts from a .jsonl file (one object with "prompt" or "messages" a line), a folder (each .txt file, by name) or
/// any other text file (one a line, empty lines skipped). Throws Error naming file and line; an empty list is an error
/// too, and so is what is no text (as_text()).
std::vector<Prompt> read_prompts(const std::filesystem::path& path);

}  // namespace kvscope::app
