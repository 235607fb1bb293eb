#pragma once
// Whether a window could be opened here.

#include <string>

namespace kvscope::app {

struct WindowProbe {
  bool ok = false;
  std::string text;  // "OpenGL 4.5 (Mesa llvmpipe)", or what is missing
};

/// Opens an invisible window and closes it again. Never ends the process.
WindowProbe probe_window();

}  // namespace kvscope::app
