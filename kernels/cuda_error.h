#pragma once
// What a CUDA call throws when it fails. Needs no CUDA header, so that callers can catch it.

#include <stdexcept>
#include <string>

namespace kvscope::kernels {

/// A CUDA call failed, or this build has no CUDA. what() says the CUDA error's name and text and the source line.
///
/// A sticky one (illegal address, launch failure) has destroyed the context: every later CUDA call in this process
/// fails too, and only a new process helps.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a build without CUDA does wherever it is asked for `what`.
[[noreturn]] inline void no_cuda(const char* what) {
  throw CudaError(std::string(what) + ": this build has no CUDA; configure with KVSCOPE_CUDA=ON");
}

}  // namespace kvscope::kernels
