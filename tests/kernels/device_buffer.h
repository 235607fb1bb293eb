#pragma once
// Device memory for tests, without CUDA headers: plain cudaMalloc of exactly the bytes asked for, so that
// compute-sanitizer sees an access one element past the end.

#include <cstddef>

namespace kvscope::test {

class DeviceBuffer {
 public:
  /// Uninitialised. Throws kernels::CudaError.
  explicit DeviceBuffer(std::size_t n_bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return n_bytes_; }
  /// Both copy size() bytes and wait for all work on the device; a kernel's fault is thrown here.
  void upload(const void* host);
  void download(void* host) const;

 private:
  void* data_ = nullptr;
  std::size_t n_bytes_;
};

}  // namespace kvscope::test
