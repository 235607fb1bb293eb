// A trace, opened as the program opens a stranger's: in a child, which HDF5 may fell.

#include <cstdlib>

#include "engine/core/trace/trace_child.h"
#include "tests/fuzz/format.h"

#ifndef KVSCOPE_TRACE_CHILD
#define KVSCOPE_TRACE_CHILD "/proc/self/exe"
/// The fuzzer is also the child that reads what it makes.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc > 1 && std::string_view((*argv)[1]) == "--trace-child") {
    std::_Exit(kvscope::trace_child_main(*argc, *argv));
  }
  return 0;
}
#endif

namespace kvscope::fuzz {
namespace {

void read_trace(std::string_view bytes) {
  // Not what is no HDF5 at all, and costs a process.
  if (!bytes.starts_with("\x89HDF")) return;
  TraceReader reader(KVSCOPE_TRACE_CHILD, put("a.h5", bytes));
  for (int run = 0; run < std::min(reader.info().n_runs, 2); ++run) reader.load(run);
}

const Registration registration("trace", read_trace);

}  // namespace
}  // namespace kvscope::fuzz
