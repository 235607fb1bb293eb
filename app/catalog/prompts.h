#pragma once
#include <filesystem>
#include <vector>

#include "app/catalog/prompt_lines.h"

namespace kvscope::app {

/// Prompts from a .jsonl file (one object with "prompt" or "messages" a line), a folder (each .txt file, by name) or
/// any other text file (one a line, empty lines skipped). Throws Error naming file and line; an empty list is an error
/// too, and so is what is no text (as_text()).
std::vector<Prompt> read_prompts(const std::filesystem::path& path);

}  // namespace kvscope::app
