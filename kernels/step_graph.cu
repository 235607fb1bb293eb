#include <cstring>

#include "kernels/cuda/check.h"
#include "kernels/step_graph.h"

namespace kvscope::kernels {

struct StepGraph::Impl {
  cudaGraphExec_t exec = nullptr;
  ~Impl() {
    if (exec) cudaGraphExecDestroy(exec);
  }
};

StepGraph::StepGraph() = default;
StepGraph::~StepGraph() = default;
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;
bool StepGraph::is_captured() const { return impl_ != nullptr; }

void StepGraph::capture(const std::function<void(Place)>& enqueue) {
  impl_.reset();
  // A stream of its own: the default one cannot be captured. Relaxed, since other threads (a loader, a window) may call
  // CUDA meanwhile.
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraph_t graph = nullptr;
  const auto end = [&] {
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    cudaStreamDestroy(stream);
    return error;
  };
  try {
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    enqueue({Backend::cuda, stream});
  } catch (...) {
    end();
    if (graph) cudaGraphDestroy(graph);
    throw;
  }
  cuda_check(end());
  auto impl = std::make_unique<Impl>();
  const cudaError_t error = cudaGraphInstantiate(&impl->exec, graph, 0);
  cudaGraphDestroy(graph);
  cuda_check(error);
  impl_ = std::move(impl);
}

void StepGraph::launch(Stream stream) const { cuda_check(cudaGraphLaunch(impl_->exec, stream)); }

void copy_async(void* to, const void* from, std::size_t bytes, Stream stream) {
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}

void wait_for(Stream stream) { cuda_check(cudaStreamSynchronize(stream)); }

PinnedMemory::PinnedMemory(std::size_t bytes) {
  cuda_check(cudaHostAlloc(&data_, bytes, cudaHostAllocDefault));
  std::memset(data_, 0, bytes);
}

PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }

}  // namespace kvscope::kernels
