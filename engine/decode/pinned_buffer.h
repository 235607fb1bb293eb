#pragma once
// Page-locked memory that goes from user to user.

#include <cstddef>
#include <memory>

#include "kernels/step_graph.h"

namespace kvscope::engine {

/// At least so many bytes, as an earlier buffer left them: to lock a page takes milliseconds. Nothing here asks the device
/// when a buffer is given up, so that this is safe after the device was lost; LibTorch's page-locked tensors end the process
/// then. What the device still does with the memory comes before the next user's, which has the same stream.
class PinnedBuffer {
 public:
  PinnedBuffer(std::size_t bytes, kernels::Stream stream);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* data() const { return memory_->data(); }

 private:
  std::size_t bytes_;
  kernels::Stream stream_;
  std::unique_ptr<kernels::PinnedMemory> memory_;
};

}  // namespace kvscope::engine
