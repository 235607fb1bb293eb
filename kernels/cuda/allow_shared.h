#pragma once
// Shared memory above 48 KiB has to be asked for, kernel by kernel.

#include <cstddef>

namespace kvscope::kernels {

/// From here on launches of `kernel` on the current device may ask for so much dynamic shared memory. What was allowed
/// before stays allowed: another thread may be about to launch with it.
void allow_shared(const void* kernel, std::size_t bytes);

}  // namespace kvscope::kernels
