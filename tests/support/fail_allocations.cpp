// LD_PRELOAD library: the N-th allocation of more than so many bytes fails, as on a machine without memory.
//
//   KVSCOPE_FAIL_LARGER   bytes; smaller allocations are neither counted nor failed
//   KVSCOPE_FAIL_AT       N, from 1; that one, and none after it
//   KVSCOPE_FAIL_MARK     a file, made when the call came
//
// A program that then uses what it did not get ends of SIGSEGV, or of SIGABRT where the heap is found damaged. Where it was
// libhdf5 that asked, which does not look at everything that it gets, it ends with exit code 199 instead: whose a call is,
// is the first of its frames that is neither ours here nor the C library's. std::terminate() is never libhdf5's.
//
// Counted from main() on: the libraries that are loaded before it do not look at what they get. glibc's own names are
// called, because dlsym() allocates.

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

std::atomic<long> calls{0};
std::atomic<bool> is_in_main{false};
int (*their_main)(int, char**, char**);

bool hdf5_asked = false;  // for what it did not get

/// The library of a frame, without its folder; "" if that is not known.
const char* library_of(void* frame) {
  Dl_info found{};
  if (::dladdr(frame, &found) == 0 || !found.dli_fname) return "";
  const char* slash = std::strrchr(found.dli_fname, '/');
  return slash ? slash + 1 : found.dli_fname;
}

bool is_hdf5s_call() {
  void* frames[64];
  const int n = ::backtrace(frames, 64);
  for (int i = 0; i < n; ++i) {
    const char* name = library_of(frames[i]);
    if (*name == '\0' || std::strstr(name, "fail_allocations") || std::strncmp(name, "libc.", 5) == 0) continue;
    return std::strncmp(name, "libhdf5", 7) == 0;
  }
  return false;
}

bool is_terminated() {
  void* frames[64];
  const int n = ::backtrace(frames, 64);
  for (int i = 0; i < n; ++i)
    if (std::strncmp(library_of(frames[i]), "libstdc++", 9) == 0) return true;
  return false;
}

void tell_whose(int number) {
  if (is_hdf5s_call() || (hdf5_asked && !is_terminated())) ::_exit(199);
  ::signal(number, SIG_DFL);  // the fault comes again; an abort goes on where it was
}

int our_main(int argc, char** argv, char** environment) {
  void* frame;
  ::backtrace(&frame, 1);  // loads what it needs now, not in the handler
  // On a stack of its own: HDF5 1.10.4, when it cannot start, tries to print why until the stack ends.
  static char stack[1 << 16];
  const stack_t elsewhere{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  ::sigaltstack(&elsewhere, nullptr);
  struct sigaction action {};
  action.sa_handler = tell_whose;
  action.sa_flags = SA_ONSTACK;
  ::sigaction(SIGSEGV, &action, nullptr);
  ::sigaction(SIGABRT, &action, nullptr);
  is_in_main = true;
  const int result = their_main(argc, argv, environment);
  is_in_main = false;
  return result;
}

long number(const char* name) {
  const char* value = ::getenv(name);
  return value ? std::strtol(value, nullptr, 10) : 0;
}

bool fails(std::size_t n) {
  if (!is_in_main) return false;
  static const long larger = number("KVSCOPE_FAIL_LARGER"), at = number("KVSCOPE_FAIL_AT");
  if (n <= static_cast<std::size_t>(larger) || ++calls != at) return false;
  const char* mark = ::getenv("KVSCOPE_FAIL_MARK");
  const long fd = mark ? ::syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600) : -1;
  if (fd >= 0) ::syscall(SYS_close, fd);
  hdf5_asked = is_hdf5s_call();
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*end)(), void* stack) {
  using Start = int(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  their_main = main;
  return reinterpret_cast<Start*>(::dlsym(RTLD_NEXT, "__libc_start_main"))(our_main, argc, argv, init, fini, end,
                                                                           stack);
}

void* malloc(std::size_t n) { return fails(n) ? nullptr : __libc_malloc(n); }
void* calloc(std::size_t n, std::size_t size) { return fails(n * size) ? nullptr : __libc_calloc(n, size); }
void* realloc(void* old, std::size_t n) { return fails(n) ? nullptr : __libc_realloc(old, n); }
void* memalign(std::size_t alignment, std::size_t n) { return fails(n) ? nullptr : __libc_memalign(alignment, n); }
void* aligned_alloc(std::size_t alignment, std::size_t n) { return memalign(alignment, n); }
int posix_memalign(void** to, std::size_t alignment, std::size_t n) {
  *to = memalign(alignment, n);
  return *to ? 0 : ENOMEM;
}

}  // extern "C"
