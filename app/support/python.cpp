#include "app/support/python.h"

#include <cstdlib>

#include "app/support/paths.h"

namespace kvscope::app {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::string python_program() {
  const std::string chosen = variable("KVSCOPE_PYTHON");
  return chosen.empty() ? "python3" : chosen;
}

std::vector<std::string> python_argv(const std::string& module, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv;
  if (std::string path = shipped_folder("engine/python"); !path.empty()) {
    if (const std::string more = variable("PYTHONPATH"); !more.empty()) path += ":" + more;
    argv = {"/usr/bin/env", "PYTHONPATH=" + path};
  }
  argv.insert(argv.end(), {python_program(), "-m", module});
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

}  // namespace kvscope::app
