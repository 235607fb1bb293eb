// LD_PRELOAD library: a GPU whose memory ends where a test says, or whose context is lost when it says so.
//
//   KVSCOPE_CUDA_FAULT    a file, over which the test speaks with it (cuda_fault.h)
//
// Memory: cudaMalloc() of libcudart.so, which LibTorch's allocator calls, gives nothing beyond `limit`. Context: a thread
// launches a kernel that traps, on a stream of its own, after which every CUDA call of the process fails.

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "tests/support/cuda_fault.h"

namespace {

using kvscope::test::CudaFault;

constexpr int kNoMemory = 2;  // cudaErrorMemoryAllocation
CudaFault* fault = nullptr;
std::mutex mutex;
std::map<void*, std::size_t> sizes;  // of what is live
std::atomic<bool> has_cuda{false};   // a kvscope that only started the engine has none

/// LibTorch opens its CUDA half, and with it the runtime, where RTLD_NEXT need not find it.
template <typename F>
F* runtime(const char* name) {
  static void* const library = ::dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<F*>(::dlsym(library ? library : RTLD_NEXT, name));
}

// One thread that traps: its PTX runs on every device since compute capability 8.0.
constexpr char kTrap[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry kvscope_trap()\n{\n trap;\n ret;\n}\n";

template <typename... Arguments>
bool driver(void* library, const char* name, Arguments... arguments) {
  auto* call = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library, name));
  return call && call(arguments...) == 0;
}

bool launch_trap() {
  void* const cuda = ::dlopen("libcuda.so.1", RTLD_LAZY);
  void *context = nullptr, *module = nullptr, *function = nullptr, *stream = nullptr;
  constexpr unsigned kNonBlocking = 1;  // or it would wait for the stream of the engine, and end a capture of a graph
  return cuda && driver(cuda, "cuDevicePrimaryCtxRetain", &context, 0) && driver(cuda, "cuCtxSetCurrent", context) &&
         driver(cuda, "cuModuleLoadData", &module, static_cast<const void*>(kTrap)) &&
         driver(cuda, "cuModuleGetFunction", &function, module, "kvscope_trap") &&
         driver(cuda, "cuStreamCreate", &stream, kNonBlocking) &&
         driver(cuda, "cuLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream, static_cast<void**>(nullptr),
                static_cast<void**>(nullptr));
}

void watch() {
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!has_cuda || fault->trap != CudaFault::wanted) continue;
    if (launch_trap()) fault->trap = CudaFault::launched;
    return;
  }
}

[[gnu::constructor]] void begin() {
  const char* path = ::getenv(CudaFault::kVariable);
  if (!path) return;
  fault = &kvscope::test::cuda_fault(path);
  fault->live = 0;
  std::thread(watch).detach();
}

}  // namespace

extern "C" {

int cudaMalloc(void** to, std::size_t n) {
  has_cuda = true;
  const std::scoped_lock lock(mutex);
  if (fault && fault->limit != 0 && fault->live + n > fault->limit) {
    ++fault->refused;
    return kNoMemory;
  }
  const int error = runtime<int(void**, std::size_t)>("cudaMalloc")(to, n);
  if (fault && error == 0) {
    sizes[*to] = n;
    fault->live += n;
    if (fault->live > fault->peak) fault->peak = fault->live.load();
  }
  return error;
}

int cudaFree(void* memory) {
  const std::scoped_lock lock(mutex);
  if (const auto found = sizes.find(memory); fault && found != sizes.end()) {
    fault->live -= found->second;
    sizes.erase(found);
  }
  return runtime<int(void*)>("cudaFree")(memory);
}

}  // extern "C"
