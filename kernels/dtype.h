#pragma once
// Element types that the kernels read and write.

#include <cstddef>
#include <cstdint>

struct CUstream_st;  // cudaStream_t without the CUDA headers

namespace kvscope::kernels {

enum class DType : std::uint8_t { f32, bf16 };

constexpr std::size_t size_of(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

using Stream = CUstream_st*;

}  // namespace kvscope::kernels
