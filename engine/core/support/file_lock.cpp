#include "engine/core/support/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "engine/core/support/error.h"

namespace kvscope {
namespace {

/// " (process 1234)", by the system's list of locks: "7: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF".
std::string holder_of(const FileHandle& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return "";
  const std::string inode = ":" + std::to_string(status.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, pid, place;
    words >> number >> kind >> advisory >> access >> pid >> place;
    if (kind == "FLOCK" && place.ends_with(inode) && pid.find_first_not_of("0123456789") == std::string::npos &&
        pid != "0")
      return " (process " + pid + ")";
  }
  return "";
}

}  // namespace

void take_lock(const FileHandle& file, const std::filesystem::path& path, const std::string& hint) {
  int result = 0;
  do {
    result = ::flock(file.get(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno != EWOULDBLOCK) return;
  throw Error({.code = ExitCode::resource,
               .file = path.string(),
               .found = "another process is writing it" + holder_of(file),
               .hint = hint});
}

FileHandle lock_folder(const std::filesystem::path& folder) {
  FileHandle handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() < 0) throw_errno(errno, folder, "open");
  take_lock(handle, folder);
  return handle;
}

}  // namespace kvscope
