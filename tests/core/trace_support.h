#pragma once
// What the trace tests share: a folder of their own, child processes, and runs whose every cell follows from a formula
// that check_trace.py knows too.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope::test {

/// An empty folder that goes away with the object. `in_memory`: on a file system whose sync costs nothing, if there is
/// one, for tests that write hundreds of files.
class ScratchFolder {
 public:
  explicit ScratchFolder(bool in_memory = false);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Starts `arguments[0]` (looked up in PATH) with its output thrown away, or, if `output` is not null, readable there.
/// `quiet` throws away its errors too.
pid_t start_process(const std::vector<std::string>& arguments, int* output = nullptr, bool quiet = false);
/// The wait status.
int wait_process(pid_t pid);
/// True if it ended by itself with status 0.
bool succeeds(const std::vector<std::string>& arguments, bool quiet = false);

/// 3 layers, 2 KV heads, 20 to 59 tokens; every value is an integer hash of (seed, series, index). A legal run, but
/// not one that a policy would make: a row that lands in another place is seen.
RunRecord formula_run(std::uint64_t seed);

}  // namespace kvscope::test
