// Writes when each kernel of a process ran, without a change to the process: CUPTI's activity records, read by kernel_table.py.
//
//   g++ -O2 -shared -fPIC -I CUDA/include tests/gpu/kernel_trace.cpp -o trace.so -L CUDA/lib -lcupti
//   CUDA_INJECTION64_PATH=$PWD/trace.so KERNEL_TRACE=/tmp/trace kvscope bench decode ...     -> /tmp/trace.PID
//
// A line is "start end graph name": nanoseconds, and the graph that launched it (0: none).
#include <cupti.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::FILE* file = nullptr;

void give_buffer(std::uint8_t** buffer, size_t* size, size_t* max_records) {
  *size = size_t{256} << 10;  // small: a process may end with its last buffer
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *size));
  *max_records = 0;
}

void write_records(CUcontext, std::uint32_t, std::uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    std::fprintf(file, "%llu %llu %u %s\n", static_cast<unsigned long long>(kernel->start),
                 static_cast<unsigned long long>(kernel->end), kernel->graphId, kernel->name);
  }
  std::fflush(file);
  std::free(buffer);
}

}  // namespace

/// CUDA calls this when it starts. The flush every tenth of a second is what is left of a process that ends without `atexit`.
extern "C" int InitializeInjection() {
  const char* prefix = std::getenv("KERNEL_TRACE");
  file = std::fopen((std::string(prefix ? prefix : "kernels") + "." + std::to_string(getpid())).c_str(), "w");
  if (!file) return 0;
  cuptiActivityRegisterCallbacks(give_buffer, write_records);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityFlushPeriod(100);
  std::atexit([] { cuptiActivityFlushAll(1); });
  return 1;
}
