#pragma once
// What a path is to this program: the one place that decides what opening or dropping it does.

#include <filesystem>

namespace kvscope::app {

enum class PathKind {
  model,   // a folder with config.json, or the name of a known model
  gate,    // a gate's folder or file, or an adapter's
  trace,   // any other file, a study too: its reader says what it is, or what is wrong with it; also on another machine
  prompt,  // .txt and .md
  prompts,  // .jsonl with "prompt" or "messages" in its first line
  recipe,   // of a figure, .json
  unknown,  // a folder that is none of these
  missing
};

/// By names, small JSON files and the first line of .jsonl alone. Touches the disk: not for the window's thread.
PathKind kind_of_path(const std::filesystem::path& path);

}  // namespace kvscope::app
