#include "kernels/cuda_error.h"
#include "kernels/device.h"

namespace kvscope::kernels {

int device_count() { return 0; }
std::string device_name(int) { no_cuda("device_name"); }
DeviceMemory device_memory(int) { no_cuda("device_memory"); }

}  // namespace kvscope::kernels
