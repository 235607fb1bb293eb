#pragma once
// Prompts of many runs (.jsonl, what capture and eval read): a line of them, and the first one where one is wanted, since
// the window has one prompt.

#include <filesystem>
#include <optional>
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

/// The messages of a chat after the system message, if there is one. Throws Error (usage) if they begin with one too.
std::vector<ChatMessage> with_system(const std::optional<std::string>& system, std::vector<ChatMessage> messages);

inline constexpr std::size_t kMaxPromptBytes = 64u << 20;

/// A conversation: a JSON list of {"role", "content"}. Throws Error naming `file`.
std::vector<ChatMessage> read_messages(std::string_view json, const std::string& file);
/// An object with "prompt" or "messages", of at most so many bytes. Throws Error naming `where`.
Prompt prompt_of_line(std::string_view line, const std::string& where, std::size_t max_bytes = kMaxPromptBytes);

struct PromptLines {
  std::string first;  // of a conversation its last message
  int n = 0;          // lines with something in them
};

/// Whether the first line is an object with "prompt" or "messages". Reads that line alone.
bool has_prompt_lines(const std::filesystem::path& path);
/// Reads the whole file. Throws Error naming file and line if the first line has no text; of the others it checks nothing.
PromptLines read_prompt_lines(const std::filesystem::path& path);

}  // namespace kvscope::app
