#pragma once
// Turns a CUDA error code into a CudaError that names the line. No macro: std::source_location knows the caller.

#include <cuda_runtime.h>

#include <source_location>

namespace kvscope::kernels {

/// Throws CudaError "file:line: cudaErrorName: text" unless `error` is cudaSuccess.
void cuda_check(cudaError_t error, std::source_location where = std::source_location::current());

/// After a kernel launch: throws if the launch itself was refused. Does not wait for the kernel.
inline void check_launch(std::source_location where = std::source_location::current()) {
  cuda_check(cudaGetLastError(), where);
}

}  // namespace kvscope::kernels
