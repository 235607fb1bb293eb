#include "kernels/cpu/gemv.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/vector.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr std::int64_t kPart = 512;  // columns of a narrow row that are widened at a time

void rows_f32(const void* rows, const void* x, std::int64_t dim, int n_rows, int n_tokens, float* y, int y_stride) {
  for (int r = 0; r < n_rows; ++r) {
    const float* row = static_cast<const float*>(rows) + r * dim;
    for (int t = 0; t < n_tokens; ++t) y[t * y_stride + r] = dot(row, static_cast<const float*>(x) + t * dim, dim);
  }
}

void rows_bf16(const void* rows, const void* x, std::int64_t dim, int n_rows, int n_tokens, float* y, int y_stride) {
  float part[kPart];
  for (int r = 0; r < n_rows; ++r) {
    for (int t = 0; t < n_tokens; ++t) y[t * y_stride + r] = 0;
    for (std::int64_t c = 0; c < dim; c += kPart) {
      const std::int64_t n = std::min(kPart, dim - c);
      widen(static_cast<const BFloat16*>(rows) + r * dim + c, part, n);
      for (int t = 0; t < n_tokens; ++t)
        y[t * y_stride + r] += dot(part, static_cast<const float*>(x) + t * dim + c, n);
    }
  }
}

/// float rows in one piece, narrow ones in parts: an element of o has one term a row either way.
template <DType kDType>
void add_rows(const void* rows, const float* weights, int w_stride, std::int64_t dim, int n_rows, int n_tokens,
              float* o) {
  float buffer[kPart];
  for (int r = 0; r < n_rows; ++r) {
    for (std::int64_t c = 0; c < dim; c += kPart) {
      const std::int64_t n = std::min(kPart, dim - c);
      const float* part = as_floats(rows, r * dim + c, n, kDType, buffer);
      for (int t = 0; t < n_tokens; ++t) add_scaled(o + t * dim + c, weights[t * w_stride + r], part, n);
    }
  }
}

// Sanitizers must see every access: the code that they instrument is the plain one.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
std::vector<const Gemv*> detect() {
  std::vector<const Gemv*> found;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (has_avx512 && __builtin_cpu_supports("avx512bf16")) found.push_back(&kGemvAvx512Bf16);
  if (has_avx512) found.push_back(&kGemvAvx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(&kGemvAvx2);
  found.push_back(&kGemvPlain);
  return found;
}
#else
std::vector<const Gemv*> detect() { return {&kGemvPlain}; }
#endif

}  // namespace

const Gemv kGemvPlain = {"plain", false, {rows_f32, rows_bf16}, {add_rows<DType::f32>, add_rows<DType::bf16>}};

std::span<const Gemv* const> available_gemv() {
  static const std::vector<const Gemv*> available = detect();
  return available;
}

}  // namespace kvscope::kernels::cpu
