#pragma once
// kvscope [MODEL | TRACE] [options]: the window.

#include <string>
#include <vector>

namespace kvscope::app {

/// Opens the window and stays until it is closed. Throws Error: usage, no display, a file that is not there.
int window_main(const std::vector<std::string>& words);

}  // namespace kvscope::app
