#pragma once
// A picture on the clipboard. GLFW's clipboard holds text alone, so that a program of the desktop has to give it out.

#include <filesystem>

namespace kvscope::app {

/// wl-copy or xclip, whichever this session can use; empty if neither is installed.
std::filesystem::path picture_clipboard_tool();
/// Throws Error (resource) that says what is missing or failed. Takes some milliseconds: not for the window's thread.
void copy_png(const std::filesystem::path& png);

}  // namespace kvscope::app
