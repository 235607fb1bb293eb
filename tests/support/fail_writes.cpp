// LD_PRELOAD library: the N-th call that would change a file below a folder fails, as on a disk that is full or dying.
//
//   KVSCOPE_FAIL_FOLDER   the folder, without a slash at its end
//   KVSCOPE_FAIL_AT       N, from 1
//   KVSCOPE_FAIL_HOW      ENOSPC, EIO or EDQUOT, from then on; ENOSPC-once: that one call; short: writes half of it;
//                         kill: ends of SIGKILL then, with half of it written
//   KVSCOPE_FAIL_MARK     a file elsewhere, made when the call came
//
// Counted are open() for writing, mkostemp(), write(), pwrite(), ftruncate(), fsync() and rename().

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

namespace {

std::atomic<int> calls{0};

std::string_view variable(const char* name) {
  const char* value = ::getenv(name);
  return value ? value : "";
}

template <typename F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

bool is_below(std::string_view path) {
  const std::string_view folder = variable("KVSCOPE_FAIL_FOLDER");
  char here[4096];
  std::string whole;
  if (!path.starts_with('/') && ::getcwd(here, sizeof here)) path = whole = std::string(here) + "/" + std::string(path);
  return !folder.empty() && path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

bool is_below(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = ::readlink(link.c_str(), path, sizeof path);
  return n > 0 && path[0] == '/' && is_below(std::string_view(path, static_cast<std::size_t>(n)));  // no "pipe:[7]"
}

bool is_kill() { return variable("KVSCOPE_FAIL_HOW") == "kill"; }
bool is_short() { return variable("KVSCOPE_FAIL_HOW") == "short"; }

// Whether this call is the one, or comes after it.
bool is_its_turn() {
  const int at = std::atoi(std::string(variable("KVSCOPE_FAIL_AT")).c_str()), call = ++calls;
  const std::string_view how = variable("KVSCOPE_FAIL_HOW");
  const bool once = how.ends_with("-once") || is_short();
  if (call < at || (once && call > at)) return false;
  // Not through our own open().
  const long mark = ::syscall(SYS_openat, AT_FDCWD, variable("KVSCOPE_FAIL_MARK").data(), O_CREAT | O_WRONLY, 0600);
  if (mark >= 0) ::syscall(SYS_close, mark);
  return true;
}

int fail() {
  const std::string_view how = variable("KVSCOPE_FAIL_HOW");
  errno = how.starts_with("EIO") ? EIO : how.starts_with("EDQUOT") ? EDQUOT : ENOSPC;
  return -1;
}

// Whether a call that writes nothing must fail.
template <typename Where>
bool fails(Where where) {
  if (!is_below(where) || !is_its_turn()) return false;
  if (is_kill()) ::kill(::getpid(), SIGKILL);
  return !is_short();
}

template <typename Write>
ssize_t write_or_fail(int fd, std::size_t n, Write write) {
  if (!is_below(fd) || !is_its_turn()) return write(n);
  if (is_kill()) write(n / 2), ::kill(::getpid(), SIGKILL);
  return is_short() && n > 1 ? write(n / 2) : is_short() ? write(n) : fail();
}

bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT) != 0; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (writes(flags) && fails(std::string_view(path))) return fail();
  return next<int(const char*, int, mode_t)>("open")(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (writes(flags) && fails(std::string_view(path))) return fail();
  return next<int(const char*, int, mode_t)>("open64")(path, flags, mode);
}
int mkostemp(char* name, int flags) {
  if (fails(std::string_view(name))) return fail();
  return next<int(char*, int)>("mkostemp")(name, flags);
}
int mkostemp64(char* name, int flags) {
  if (fails(std::string_view(name))) return fail();
  return next<int(char*, int)>("mkostemp64")(name, flags);
}
ssize_t write(int fd, const void* bytes, size_t n) {
  return write_or_fail(fd, n,
                       [&](size_t part) { return next<ssize_t(int, const void*, size_t)>("write")(fd, bytes, part); });
}
ssize_t pwrite(int fd, const void* bytes, size_t n, off_t at) {
  return write_or_fail(fd, n, [&](size_t part) {
    return next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(fd, bytes, part, at);
  });
}
ssize_t pwrite64(int fd, const void* bytes, size_t n, off64_t at) {
  return write_or_fail(fd, n, [&](size_t part) {
    return next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(fd, bytes, part, at);
  });
}
int ftruncate(int fd, off_t length) {
  if (fails(fd)) return fail();
  return next<int(int, off_t)>("ftruncate")(fd, length);
}
int ftruncate64(int fd, off64_t length) {
  if (fails(fd)) return fail();
  return next<int(int, off64_t)>("ftruncate64")(fd, length);
}
int fsync(int fd) {
  struct stat status {};
  const bool is_folder = ::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);  // which some file systems cannot sync
  if (!is_folder && fails(fd)) return fail();
  return next<int(int)>("fsync")(fd);
}
int rename(const char* from, const char* to) {
  if (fails(std::string_view(to))) return fail();
  return next<int(const char*, const char*)>("rename")(from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (fails(std::string_view(to))) return fail();
  return next<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_folder, from, to_folder, to, flags);
}

}  // extern "C"
