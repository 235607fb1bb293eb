#pragma once
// The one place that knows whether a GPU is there and how LibTorch gets to it.
//
// The engine links libtorch_cpu only, so that it starts on machines without CUDA libraries; libtorch_cuda is opened
// when a device is first wanted, and ATen works on CUDA from then on.

#include <cstdint>
#include <string>

namespace kvscope::engine {

/// Devices of the driver. `problem` says why there is none (no driver, a build without CUDA, LibTorch without CUDA).
struct CudaStatus {
  int n_devices = 0;
  std::string problem;
  std::string hint;
};
CudaStatus cuda_status();

/// Opens libtorch_cuda (once) and checks that `index` exists. Throws Error (resource) that says what is missing.
void open_cuda(int index);

/// "NVIDIA H200"; free and total bytes of memory.
struct CudaDevice {
  std::string name;
  std::int64_t free_bytes = 0, total_bytes = 0;
};
CudaDevice cuda_device(int index);

/// "2.11.0": the LibTorch that was loaded.
std::string torch_version();

/// Settings that hold for the whole process: float32 products in full precision (no TF32), so that CPU and CUDA agree.
/// Called by every LoadedModel; idempotent.
void set_numerics();

/// Holds LibTorch's products to one thread while a small model decodes on the CPU, and gives the others back at the
/// end.
///
/// A row times a matrix of a few hundred rows is over before a second thread has woken; and OpenMP's threads wait by
/// spinning, so that on a busy machine each product waits for a time slice: 400 ms a token instead of 5 (7 M
/// parameters, 2 cores under load).
class DecodeThreads {
 public:
  explicit DecodeThreads(std::int64_t n_parameters);
  ~DecodeThreads();
  DecodeThreads(const DecodeThreads&) = delete;
  DecodeThreads& operator=(const DecodeThreads&) = delete;

 private:
  int before_ = 0;  // 0: nothing was changed
};

}  // namespace kvscope::engine
