#pragma once
// Which place of the kernels a device of LibTorch is: only this file knows. Includes LibTorch.

#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "kernels/operation.h"

namespace kvscope::engine::ops {

/// Where kernels on the tensors of `device` run: here and now, or on LibTorch's current stream.
inline kernels::Place place_of(c10::Device device) {
  if (!device.is_cuda()) return {};
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  return {kernels::Backend::cuda, static_cast<kernels::Stream>(guard.getStream(device).native_handle())};
}

}  // namespace kvscope::engine::ops
