#include "kernels/cuda/check.h"
#include "tests/kernels/device_buffer.h"

namespace kvscope::test {

DeviceBuffer::DeviceBuffer(std::size_t n_bytes) : n_bytes_(n_bytes) {
  kernels::cuda_check(cudaMalloc(&data_, n_bytes > 0 ? n_bytes : 1));
}

DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }

void DeviceBuffer::upload(const void* host) {
  kernels::cuda_check(cudaMemcpy(data_, host, n_bytes_, cudaMemcpyHostToDevice));
}

void DeviceBuffer::download(void* host) const {
  kernels::cuda_check(cudaDeviceSynchronize());
  kernels::cuda_check(cudaMemcpy(host, data_, n_bytes_, cudaMemcpyDeviceToHost));
}

}  // namespace kvscope::test
