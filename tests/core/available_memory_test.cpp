// Memory that can still be had, of systems that are folders here.

#include "engine/core/support/available_memory.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>

#include "tests/support/temp_folder.h"

namespace fs = std::filesystem;
using kvscope::available_memory;

namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("Memory that is available is the system's, or what the groups of the process leave if that is less") {
  const kvscope::test::TempFolder root;
  CHECK(available_memory(root.path()) == std::numeric_limits<std::int64_t>::max());
  write(root / "proc/meminfo", "MemTotal:       16000 kB\nMemAvailable:    8000 kB\n");
  CHECK(available_memory(root.path()) == 8000 * 1024);

  const fs::path group = root / "sys/fs/cgroup/slurm/job_7";
  write(root / "proc/self/cgroup", "1:cpu:/elsewhere\n0::/slurm/job_7\n");
  write(group / "memory.max", "max\n");
  write(group / "memory.current", "3000000\n");
  CHECK(available_memory(root.path()) == 8000 * 1024);
  write(group / "memory.max", "5000000\n");
  CHECK(available_memory(root.path()) == 2'000'000);
  write(group / "memory.stat", "anon 100\ninactive_file 500000\n");  // which can be dropped
  CHECK(available_memory(root.path()) == 2'500'000);
  write(group.parent_path() / "memory.max", "1000000\n");  // of all jobs together
  CHECK(available_memory(root.path()) == 1'000'000);
  write(group.parent_path() / "memory.current", "1500000\n");
  CHECK(available_memory(root.path()) == 0);
}

TEST_CASE("Memory is available here") { CHECK(available_memory() > 0); }
