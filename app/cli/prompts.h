#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace kvscope::app {

/// Prompts from a .jsonl file (one object with "prompt" a line), a folder (each .txt file, by name) or any other text
/// file (one a line, empty lines skipped). Throws Error naming file and line; an empty list is an error too.
std::vector<std::string> read_prompts(const std::filesystem::path& path);

}  // namespace kvscope::app
