#include "app/studies/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "engine/core/support/error.h"
#include "engine/core/support/file_lock.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

/// Of a file whose last name has gone, or passed to another one, nobody would find what is written.
bool has_name(const FileHandle& file, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

std::string text_of(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::size_t Journal::read(const fs::path& path, const TakeLine& take) {
  const std::string text = read_file(path, kMaxBytes);
  const std::size_t end = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  int number = 0;
  for (std::size_t at = 0, stop; at < end; at = stop + 1) {
    stop = text.find('\n', at);
    const std::string place = path.string() + ", line " + std::to_string(++number);
    try {
      take(parse_json(std::string_view(text).substr(at, stop - at), place), number, place);
    } catch (const Error& error) {
      Error::Parts parts = error.parts();
      if (number > 1 && parts.hint.empty()) parts.hint = "remove that line; its answer is computed again";
      throw Error(std::move(parts));
    }
  }
  return end;
}

bool Journal::is_torn(const fs::path& path, const nlohmann::ordered_json& first) {
  return text_of(first).starts_with(read_file(path, kMaxBytes));
}

void Journal::open(const std::string& hint) {
  do {
    file_ = FileHandle(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!is_open()) throw_errno(errno, path_, "open");
    try {
      take_lock(file_, path_, hint);
    } catch (const Error&) {
      file_ = FileHandle();  // another one's, which is not to be removed
      throw;
    }
  } while (!has_name(file_, path_));  // who held it has just removed it
}

Journal::~Journal() {
  struct stat status {};
  if (is_open() && ::fstat(file_.get(), &status) == 0 && status.st_size == 0 && has_name(file_, path_))
    ::unlink(path_.c_str());
}

void Journal::go_on_at(std::size_t n_bytes) {
  if (::ftruncate(file_.get(), static_cast<off_t>(n_bytes)) != 0 || ::lseek(file_.get(), 0, SEEK_END) < 0)
    throw_errno(errno, path_, "write");
}

/// In one write(): what a kill leaves is whole lines and at most one beginning of a line.
void Journal::write(const nlohmann::ordered_json& line) {
  const std::string text = text_of(line);
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto n = ::write(file_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, path_, "write");
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace kvscope::app
