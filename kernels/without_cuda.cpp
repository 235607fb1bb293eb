#include "kernels/cuda_error.h"
#include "kernels/device.h"
#include "kernels/step_graph.h"

namespace kvscope::kernels {

int device_count() { return 0; }
std::string device_name(int) { no_cuda("device_name"); }
DeviceMemory device_memory(int) { no_cuda("device_memory"); }

struct StepGraph::Impl {};
StepGraph::StepGraph() = default;
StepGraph::~StepGraph() = default;
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;
bool StepGraph::is_captured() const { return false; }
void StepGraph::capture(const std::function<void(Place)>&) { no_cuda("StepGraph"); }
void StepGraph::launch(Stream) const { no_cuda("StepGraph"); }
void copy_async(void*, const void*, std::size_t, Stream) { no_cuda("copy_async"); }
void wait_for(Stream) { no_cuda("wait_for"); }
PinnedMemory::PinnedMemory(std::size_t) { no_cuda("PinnedMemory"); }
PinnedMemory::~PinnedMemory() = default;

}  // namespace kvscope::kernels
