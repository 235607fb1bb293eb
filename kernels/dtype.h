#pragma once
// Element types that the kernels read and write.

#include <cstddef>
#include <cstdint>

struct CUstream_st;  // cudaStream_t without the CUDA headers

namespace kvscope::kernels {

enum class DType : std::uint8_t { f32, bf16 };

constexpr std::size_t size_of(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

/// Address of element `index` of `data`.
inline const void* element_at(const void* data, std::int64_t index, DType dtype) {
  return static_cast<const char*>(data) + index * static_cast<std::int64_t>(size_of(dtype));
}

using Stream = CUstream_st*;

}  // namespace kvscope::kernels
