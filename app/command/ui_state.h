#pragma once
// What the window shows besides the session: panels, popups, theme. Plain data, changed by commands.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/workspace/layout.h"

namespace kvscope::app {

/// A path is asked for: open or save something.
struct FileDialog {
  std::string title;    // "Save trace"
  std::string command;  // called with {"path": ...}
  std::string path;     // what stands in the field at first
  std::string hint;     // "run.h5"
  bool save = false;
  nlohmann::json arguments = nlohmann::json::object();  // of the command, besides the path
};

/// Layout and Appearance are kept and undone; what stands here passes.
struct UiState : Layout, Appearance {
  bool palette = false, help = false;
  std::optional<FileDialog> dialog;
  std::string clipboard;                // text to be put there by the window
  std::vector<std::string> popup_keys;  // typed while a popup is open: "up", "down", "enter"
  bool focus_prompt = false;
  std::string screenshot;  // file to write after the next frame
  bool quit = false;
};

}  // namespace kvscope::app
