#include "app/support/program_path.h"

#include <cstdlib>
#include <sstream>

namespace kvscope::app {

namespace fs = std::filesystem;

fs::path program_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  std::error_code error;
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (fs::exists(fs::path(folder) / program, error)) return fs::path(folder) / program;
  }
  return {};
}

}  // namespace kvscope::app
