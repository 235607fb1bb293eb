#include "app/command/picture_clipboard.h"

#include <chrono>
#include <string>

#include "app/support/program_path.h"
#include "engine/core/support/child_process.h"
#include "engine/core/support/error.h"
#include "engine/core/support/shell_quote.h"

namespace kvscope::app {

namespace fs = std::filesystem;
fs::path picture_clipboard_tool() {
  if (std::getenv("WAYLAND_DISPLAY")) {
    if (const fs::path tool = program_path("wl-copy"); !tool.empty()) return tool;
  }
  return program_path("xclip");
}

void copy_png(const fs::path& png) {
  const fs::path tool = picture_clipboard_tool(), own_session = program_path("setsid");
  if (tool.empty() || own_session.empty()) {
    throw Error({.code = ExitCode::resource,
                 .file = "clipboard",
                 .found = "no clipboard program for pictures",
                 .expected = "xclip, or wl-copy under Wayland",
                 .hint = "install one, or save the figure as PNG"});
  }
  // Whoever gives out a picture stays until another takes the clipboard: in a session of its own it outlives this call.
  const std::string quoted = shell_quote(png.string());
  const std::string command = tool.filename() == "xclip"
                                  ? tool.string() + " -selection clipboard -t image/png -i " + quoted
                                  : tool.string() + " --type image/png < " + quoted;
  ChildProcess process = ChildProcess::start({own_session.string(), "--fork", "/bin/sh", "-c", command});
  process.wait(std::chrono::milliseconds(3000));
}

}  // namespace kvscope::app
