#include "kernels/cuda/check.h"
#include "kernels/cuda_error.h"
#include "kernels/device.h"

namespace kvscope::kernels {

void cuda_check(cudaError_t error, std::source_location where) {
  if (error == cudaSuccess) return;
  throw CudaError(std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": " + cudaGetErrorName(error) +
                  ": " + cudaGetErrorString(error));
}

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // no device, or no driver: not an error that the next launch should report
  return 0;
}

std::string device_name(int index) {
  cudaDeviceProp properties;
  cuda_check(cudaGetDeviceProperties(&properties, index));
  return properties.name;
}

DeviceMemory device_memory(int index) {
  int current = 0;
  cuda_check(cudaGetDevice(&current));
  cuda_check(cudaSetDevice(index));
  DeviceMemory memory = {};
  const cudaError_t error = cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes);
  cuda_check(cudaSetDevice(current));
  cuda_check(error);
  return memory;
}

}  // namespace kvscope::kernels
