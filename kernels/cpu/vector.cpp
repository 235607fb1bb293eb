#include "kernels/cpu/vector.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cpu/clones.h"

namespace kvscope::kernels::cpu {
namespace {

/// exp(x) for x <= 88 by 2^n times a polynomial of degree 7 in the rest; branch-free, so that gcc vectorises it.
__attribute__((always_inline)) inline float exp_up_to_88(float x) {
  const float above = x < -87.0f ? -87.0f : x;  // 2^n stays a normal number
  const float clamped = above > 88.0f ? 88.0f : above;
  constexpr float kRoundToInteger = 12582912.0f;  // 1.5 * 2^23: adding it drops the fraction
  const float n = (clamped * 1.44269504f + kRoundToInteger) - kRoundToInteger;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts: no cancellation
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const float power = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : p * power;
}

/// kRows x kColumns outputs of a matrix product, held in registers over the whole sum. With AVX2 4 x 16 take eight of
/// the sixteen registers; SSE has room for 4 x 8 only, gcc then keeps the rest in the first-level cache.
template <int kRows, int kColumns>
__attribute__((always_inline)) inline void multiply_block(const float* a, int lda, const float* b, int ldb, float* c,
                                                          int ldc, int k, bool accumulate) {
  float sum[kRows][kColumns];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) sum[i][j] = accumulate ? c[i * ldc + j] : 0.0f;
  }
  for (int l = 0; l < k; ++l) {
    const float* row = b + static_cast<std::int64_t>(l) * ldb;
    for (int i = 0; i < kRows; ++i) {
      const float factor = a[i * lda + l];
#pragma omp simd
      for (int j = 0; j < kColumns; ++j) sum[i][j] += factor * row[j];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) c[i * ldc + j] = sum[i][j];
  }
}

template <int kRows>
__attribute__((always_inline)) inline void multiply_rows(const float* a, int lda, const float* b, int ldb, float* c,
                                                         int ldc, int k, int n, bool accumulate) {
  int j = 0;
  for (; j + 16 <= n; j += 16) multiply_block<kRows, 16>(a, lda, b + j, ldb, c + j, ldc, k, accumulate);
  for (; j < n; j += 8) multiply_block<kRows, 8>(a, lda, b + j, ldb, c + j, ldc, k, accumulate);
}

}  // namespace

KVSCOPE_CLONES float dot(const float* x, const float* y, std::int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

KVSCOPE_CLONES void add_scaled(float* y, float a, const float* x, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

KVSCOPE_CLONES void scale(float* x, float a, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) x[i] *= a;
}

KVSCOPE_CLONES void scale_by(float* out, const float* x, float a, const float* weight, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * a * weight[i];
}

KVSCOPE_CLONES float maximum(const float* x, std::int64_t n) {
  float result = -INFINITY;
#pragma omp simd reduction(max : result)
  for (std::int64_t i = 0; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

KVSCOPE_CLONES float exp_and_sum(float* x, float shift, std::int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) {
    const float e = exp_up_to_88(x[i] - shift);
    x[i] = e;
    sum += e;
  }
  return sum;
}

KVSCOPE_CLONES float sum_of_exp(const float* x, float shift, std::int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += exp_up_to_88(x[i] - shift);
  return sum;
}

KVSCOPE_CLONES void swiglu(float* gate, const float* up, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) gate[i] = gate[i] / (1 + exp_up_to_88(-gate[i])) * up[i];
}

KVSCOPE_CLONES void geglu(float* gate, const float* up, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gate[i], twice_u = 1.59576912f * (g + 0.044715f * g * g * g);
    gate[i] = g / (1 + exp_up_to_88(-twice_u)) * up[i];
  }
}

KVSCOPE_CLONES void clamped_glu(float* gate, const float* up, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = gate[i] > kClampedLimit ? kClampedLimit : gate[i];
    const float below = up[i] > kClampedLimit ? kClampedLimit : up[i],
                u = below < -kClampedLimit ? -kClampedLimit : below;
    gate[i] = g / (1 + exp_up_to_88(-kClampedAlpha * g)) * (1 + u);
  }
}

void activate(GluActivation activation, float* gate, const float* up, std::int64_t n) {
  if (activation == GluActivation::silu) return swiglu(gate, up, n);
  if (activation == GluActivation::gelu_tanh) return geglu(gate, up, n);
  clamped_glu(gate, up, n);
}

KVSCOPE_CLONES void silu(float* x, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) x[i] = x[i] / (1 + exp_up_to_88(-x[i]));
}

void gelu(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = 0.5f * x[i] * (1 + std::erf(x[i] * 0.707106781f));
}

void soft_cap(float* x, float cap, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
}

KVSCOPE_CLONES void update_and_read(float* c, float keep, float a, const float* v, float q, float* h, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float updated = keep * c[i] + a * v[i];
    c[i] = updated;
    h[i] += q * updated;
  }
}

KVSCOPE_CLONES void multiply(const float* a, int lda, const float* b, int ldb, float* c, int ldc, int m, int k, int n,
                             bool accumulate) {
  int i = 0;
  for (; i + 4 <= m; i += 4) multiply_rows<4>(a + i * lda, lda, b, ldb, c + i * ldc, ldc, k, n, accumulate);
  for (; i < m; ++i) multiply_rows<1>(a + i * lda, lda, b, ldb, c + i * ldc, ldc, k, n, accumulate);
}

void transpose(const float* x, std::int64_t n_rows, std::int64_t n_columns, float* out, std::int64_t ld) {
  for (std::int64_t i = 0; i < n_rows; ++i) {
    for (std::int64_t j = 0; j < n_columns; ++j) out[j * ld + i] = x[i * n_columns + j];
  }
}

KVSCOPE_CLONES void widen(const BFloat16* x, float* out, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(x[i].bits) << 16);
}

KVSCOPE_CLONES void narrow(const float* x, BFloat16* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = to_bfloat16(x[i]);
}

const float* norm_factors(const void* data, std::int64_t n, DType dtype, float offset, float* buffer) {
  const float* weight = as_floats(data, 0, n, dtype, buffer);
  if (offset == 0) return weight;
  for (std::int64_t i = 0; i < n; ++i) buffer[i] = offset + weight[i];
  return buffer;
}

void copy_floats(const void* data, std::int64_t index, std::int64_t n, DType dtype, float* out) {
  const float* from = as_floats(data, index, n, dtype, out);
  if (from != out) std::copy_n(from, n, out);
}

void store(const float* x, void* data, std::int64_t index, std::int64_t n, DType dtype) {
  if (dtype == DType::bf16) {
    narrow(x, static_cast<BFloat16*>(data) + index, n);
    return;
  }
  float* out = static_cast<float*>(data) + index;
  if (out != x) std::copy_n(x, n, out);
}

}  // namespace kvscope::kernels::cpu
