// A trace, opened as the program opens a stranger's: in a child, which HDF5 may fell. The ordinary build's is
// trace_child.h's, a program that is started. That costs 12 ms and hides from the fuzzer what was reached in it, so the
// fuzzer forks (trace_fork.cpp) and starts the program for one file in sixteen.

#include <cstdlib>

#include "engine/core/trace/trace_child.h"
#include "tests/fuzz/format.h"
#include "tests/fuzz/trace_fork.h"
#include "tests/support/folders.h"

namespace kvscope::fuzz {
namespace {

void use(TraceReader reader) {
  for (int run = 0; run < std::min(reader.info().n_runs, 2); ++run) reader.load(run);
}

#ifdef KVSCOPE_TRACE_CHILD
void read_file(const std::filesystem::path& file, std::string_view) {
  use({test::in_build(KVSCOPE_TRACE_CHILD), file});
}
#else
void read_file(const std::filesystem::path& file, std::string_view bytes) {
  const std::string wrong = read_in_fork([&] { use({"", file}); });
  if (!wrong.empty()) throw std::runtime_error(wrong);
  // By its bytes, so that a file that was found is read in the same way again.
  unsigned sum = 0;
  for (const char c : bytes) sum = sum * 31 + static_cast<unsigned char>(c);
  if (sum % 16 == 0) use({"/proc/self/exe", file, {.work = std::chrono::seconds(60)}});
}
#endif

void read_trace(std::string_view bytes) {
  // Not what is no HDF5 at all, and costs a process.
  if (!bytes.starts_with("\x89HDF")) return;
  read_file(put("a.h5", bytes), bytes);
}

const Registration registration("trace", read_trace);

}  // namespace
}  // namespace kvscope::fuzz

#ifndef KVSCOPE_TRACE_CHILD
/// The fuzzer is also the child that reads what it makes.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc > 1 && std::string_view((*argv)[1]) == "--trace-child") {
    std::_Exit(kvscope::trace_child_main(*argc, *argv));
  }
  return 0;
}
#endif
