#include "tests/fuzz/format.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "engine/core/support/error.h"

namespace kvscope::fuzz {
namespace {

struct MemoryFolder {
  std::filesystem::path path;
  MemoryFolder() {
    std::string name = (std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm")
                                                            : std::filesystem::temp_directory_path()) /
                       "kvscope-fuzz-XXXXXX";
    if (!::mkdtemp(name.data())) throw std::runtime_error("no folder for the files to read");
    path = name;
  }
  ~MemoryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

std::vector<Format>& formats() {
  static std::vector<Format> list;
  return list;
}

const std::filesystem::path& memory_folder() {
  static const MemoryFolder folder;
  return folder.path;
}

std::filesystem::path put(const std::string& name, std::string_view bytes) {
  const std::filesystem::path path = memory_folder() / name;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("cannot write " + path.string());
  }
  ::close(fd);
  return path;
}

void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

std::string_view take_part(std::string_view& bytes, char mark) {
  const std::size_t end = bytes.find(mark);
  const std::string_view part = bytes.substr(0, end);
  bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
  return part;
}

std::string read_anything(const Format& format, std::string_view bytes) {
  try {
    format.read(bytes);
  } catch (const Error& error) {
    const std::string line = error.what();
    if (error.code() == ExitCode::internal) return "an internal error: " + line;
    if (line.empty() || line.find('\n') != line.npos) return "an error that is not one line: " + line;
  } catch (const std::exception& error) {
    return std::string("an exception that is no Error: ") + error.what();
  }
  return "";
}

}  // namespace kvscope::fuzz
