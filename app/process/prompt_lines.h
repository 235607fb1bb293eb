#pragma once
// Prompts of many runs (.jsonl, what capture and eval read) where one of them is wanted: the window has one prompt.

#include <filesystem>
#include <optional>
#include <string>

namespace kvscope::app {

struct PromptLines {
  std::string first;  // of a conversation its last message
  int n = 0;          // lines with something in them
};

/// Whether the first line is an object with "prompt" or "messages". Reads that line alone.
bool has_prompt_lines(const std::filesystem::path& path);
/// Reads the whole file. Throws Error naming file and line if the first line has no text; of the others it checks nothing.
PromptLines read_prompt_lines(const std::filesystem::path& path);

}  // namespace kvscope::app
