#pragma once
// One recorded sequence of launches, played back with one call: a decode step without its 200 launch costs.

#include <cstddef>
#include <functional>
#include <memory>

#include "kernels/operation.h"

namespace kvscope::kernels {

/// A captured CUDA graph. What was enqueued reads its inputs through pointers, which must stay valid and stay where
/// they are; whatever changes from step to step lies behind them.
class StepGraph {
 public:
  StepGraph();
  ~StepGraph();
  StepGraph(StepGraph&&) noexcept;
  StepGraph& operator=(StepGraph&&) noexcept;

  /// Calls `enqueue` with a place that records instead of running. Only launches and copy_async() may be enqueued: no
  /// allocation, no synchronisation. Replaces what was captured before. Throws CudaError; an exception of `enqueue`
  /// ends the capture and passes through.
  void capture(const std::function<void(Place)>& enqueue);
  bool is_captured() const;
  /// Plays it back on `stream`.
  void launch(Stream stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Copies between any two of device memory and page-locked host memory, in the order of `stream`.
void copy_async(void* to, const void* from, std::size_t bytes, Stream stream);

/// Returns when everything on `stream` is done. Throws CudaError for what went wrong there.
void wait_for(Stream stream);

/// Page-locked host memory, zeroed; what the device may read and write while the host goes on.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace kvscope::kernels
