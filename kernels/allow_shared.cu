#include <map>
#include <mutex>
#include <utility>

#include "kernels/cuda/allow_shared.h"
#include "kernels/cuda/check.h"

namespace kvscope::kernels {

void allow_shared(const void* kernel, std::size_t bytes) {
  if (bytes <= 32 * 1024) return;  // 48 KB are there without asking, less what the kernel declares itself
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, std::size_t> allowed;
  int device = 0;
  cuda_check(cudaGetDevice(&device));
  const std::scoped_lock lock(mutex);
  std::size_t& most = allowed[{device, kernel}];
  if (bytes <= most) return;
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  most = bytes;
}

}  // namespace kvscope::kernels
