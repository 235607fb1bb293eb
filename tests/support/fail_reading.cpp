// LD_PRELOAD library: a reading child (--trace-child, --study-child) stands still before it opens its file, as on a disk that
// does not answer, for KVSCOPE_FAIL_SECONDS. Other processes do nothing.

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cstdio>

namespace {

__attribute__((constructor)) void stand_still() {
  char words[4096] = "";
  if (std::FILE* file = std::fopen("/proc/self/cmdline", "r")) {
    (void)!std::fread(words, 1, sizeof words - 1, file);
    std::fclose(file);
  }
  const char* first = words + strlen(words) + 1;  // after the program's name
  if (strcmp(first, "--trace-child") != 0 && strcmp(first, "--study-child") != 0) return;
  const char* seconds = ::getenv("KVSCOPE_FAIL_SECONDS");
  timespec left{seconds ? std::atoi(seconds) : 0, 0};
  while (::nanosleep(&left, &left) != 0) {
  }
}

}  // namespace
