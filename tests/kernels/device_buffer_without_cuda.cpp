// For KVSCOPE_CUDA=OFF: device_count() is 0, so every case that would come here has been skipped.
#include "kernels/cuda_error.h"
#include "tests/kernels/device_buffer.h"

namespace kvscope::test {

DeviceBuffer::DeviceBuffer(std::size_t n_bytes) : n_bytes_(n_bytes) {
  throw kernels::CudaError("device memory asked of a build without CUDA");
}
DeviceBuffer::~DeviceBuffer() = default;
void DeviceBuffer::upload(const void*) {}
void DeviceBuffer::download(void*) const {}

}  // namespace kvscope::test
