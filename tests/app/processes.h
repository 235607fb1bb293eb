#pragma once
// Processes that a program under test has started, found by their commands.

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/app/process.h"

namespace kvscope::test {

/// Those whose command line begins so (its words are separated by zeros). One that has ended and was not waited for has none.
inline std::vector<pid_t> processes_of(const std::string& command) {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && read_text(entry.path() / "cmdline").starts_with(command)) pids.push_back(pid);
  }
  return pids;
}

/// Resident now; 0 once it has ended.
inline std::int64_t resident_bytes(pid_t pid) {
  std::ifstream pages("/proc/" + std::to_string(pid) + "/statm");
  std::int64_t all = 0, resident = 0;
  pages >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace kvscope::test
