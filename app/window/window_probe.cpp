#include "app/window/window_probe.h"

#include <cstdlib>

#include "app/window/glfw_window.h"
#include "engine/core/support/error.h"

namespace kvscope::app {

WindowProbe probe_window() {
  try {
    GlfwWindow window({.width = 64, .height = 64, .visible = false, .title = "kvscope doctor"});
    return {true, window.description()};
  } catch (const Error& error) {
    return {false, error.what()};
  }
}

}  // namespace kvscope::app
