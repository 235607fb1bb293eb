#pragma once
// From run-time sizes to template arguments. What is not compiled is refused by name, never passed over.

#include <cuda_bf16.h>

#include <string>

#include "kernels/argument_check.h"
#include "kernels/dtype.h"

namespace kvscope::kernels {

/// Calls f.operator()<T>() with T = float or __nv_bfloat16.
template <typename F>
void dispatch_dtype(DType dtype, F&& f) {
  if (dtype == DType::f32) return f.template operator()<float>();
  f.template operator()<__nv_bfloat16>();
}

/// Calls f.operator()<kHeadDim>(). Throws std::invalid_argument for a head_dim that is not compiled.
template <typename F>
void dispatch_head_dim(const char* op, int head_dim, F&& f) {
  switch (head_dim) {
    case 64:
      return f.template operator()<64>();
    case 80:
      return f.template operator()<80>();
    case 96:
      return f.template operator()<96>();
    case 128:
      return f.template operator()<128>();
    case 192:
      return f.template operator()<192>();
    case 256:
      return f.template operator()<256>();
    default:
      refuse(op, "head_dim", head_dim, "64, 80, 96, 128, 192 or 256");
  }
}

/// The kernels read rows 16 bytes at a time. Throws std::invalid_argument for a pointer that does not allow it.
inline void require_alignment(const char* op, const char* name, const void* pointer) {
  const auto rest = reinterpret_cast<std::uintptr_t>(pointer) % 16;
  if (rest != 0) refuse(op, (std::string(name) + " modulo 16 bytes").c_str(), static_cast<long long>(rest), "0");
}

}  // namespace kvscope::kernels
