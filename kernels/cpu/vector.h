#pragma once
// The inner loops of the CPU kernels: float rows, vectorised, compiled for AVX2 + FMA and for plain x86-64 (the loader
// picks). All lengths in elements; pointers need no alignment.

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/dtype.h"
#include "kernels/glu.h"

namespace kvscope::kernels::cpu {

inline constexpr int kMaxHeadDim = 256;  // elements of a head

/// sum_i x[i] y[i]
float dot(const float* x, const float* y, std::int64_t n);

/// y[i] += a x[i]
void add_scaled(float* y, float a, const float* x, std::int64_t n);

/// x[i] *= a
void scale(float* x, float a, std::int64_t n);

/// out[i] = x[i] a weight[i]; out may be x.
void scale_by(float* out, const float* x, float a, const float* weight, std::int64_t n);

/// Greatest of x[0 ... n), -inf for n = 0. No NaN.
float maximum(const float* x, std::int64_t n);

/// x[i] = exp(x[i] - shift); returns their sum. Relative error below 3e-7; 0 where x[i] - shift < -87 (-inf included),
/// e^88 above 88, NaN for NaN. shift must be finite.
float exp_and_sum(float* x, float shift, std::int64_t n);

/// sum_i exp(x[i] - shift), as above; x stays.
float sum_of_exp(const float* x, float shift, std::int64_t n);

/// gate[i] <- silu(gate[i]) up[i], silu(g) = g / (1 + exp(-g))
void swiglu(float* gate, const float* up, std::int64_t n);

/// gate[i] <- gelu_tanh(gate[i]) up[i], gelu_tanh(g) = g / 2 (1 + tanh(u)) = g / (1 + exp(-2 u)),
/// u = sqrt(2 / pi) (g + 0.044715 g^3)
void geglu(float* gate, const float* up, std::int64_t n);

/// gate[i] <- g / (1 + exp(-1.702 g)) (1 + u), g = min(gate[i], 7), u = up[i] within -7 ... 7: GluActivation::clamped
void clamped_glu(float* gate, const float* up, std::int64_t n);

/// gate[i] <- activation(gate[i]) up[i], one of these three.
void activate(GluActivation activation, float* gate, const float* up, std::int64_t n);

/// x[i] <- x[i] / (1 + exp(-x[i]))
void silu(float* x, std::int64_t n);

/// x[i] <- x[i] / 2 (1 + erf(x[i] / sqrt(2))), by the library's erf: about 10 ns each.
void gelu(float* x, std::int64_t n);

/// x[i] <- cap tanh(x[i] / cap), by the library's tanh: about 10 ns each.
void soft_cap(float* x, float cap, std::int64_t n);

/// One row of the mLSTM memory (mlstm_step.h): c[i] <- keep c[i] + a v[i], then h[i] += q c[i].
void update_and_read(float* c, float keep, float a, const float* v, float q, float* h, std::int64_t n);

/// c[i][j] (+)= sum_l a[i * lda + l] b[l * ldb + j] for i < m, j < n, l < k. n must be a multiple of 8.
void multiply(const float* a, int lda, const float* b, int ldb, float* c, int ldc, int m, int k, int n,
              bool accumulate);

/// out[j * ld + i] = x[i * n_columns + j]: `n_rows` rows become columns.
void transpose(const float* x, std::int64_t n_rows, std::int64_t n_columns, float* out, std::int64_t ld);

void widen(const BFloat16* x, float* out, std::int64_t n);
void narrow(const float* x, BFloat16* out, std::int64_t n);

/// Elements [index, index + n) of `data` as floats: the data themselves if they are float32, else copied into `buffer`.
inline const float* as_floats(const void* data, std::int64_t index, std::int64_t n, DType dtype, float* buffer) {
  if (dtype == DType::f32) return static_cast<const float*>(data) + index;
  widen(static_cast<const BFloat16*>(data) + index, buffer, n);
  return buffer;
}

/// The same, copied into `out` in any case.
void copy_floats(const void* data, std::int64_t index, std::int64_t n, DType dtype, float* out);

/// offset + data[i] for i < n: the factors of a norm. The data themselves if they are float32 and the offset is 0, else `buffer`.
const float* norm_factors(const void* data, std::int64_t n, DType dtype, float offset, float* buffer);

/// Writes n floats as elements [index, index + n) of `data`.
void store(const float* x, void* data, std::int64_t index, std::int64_t n, DType dtype);

}  // namespace kvscope::kernels::cpu
