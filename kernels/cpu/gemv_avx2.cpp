// AVX2 with fused multiply-add. Only the functions marked with the target use them, so that the file itself runs
// anywhere.
#include "kernels/cpu/gemv.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu/gemv_tiles.h"

#define KVSCOPE_AVX2 __attribute__((target("avx2,fma")))

namespace kvscope::kernels::cpu {
namespace {

KVSCOPE_AVX2 inline __m256 load_row(const float* x) { return _mm256_loadu_ps(x); }
KVSCOPE_AVX2 inline __m256 load_row(const BFloat16* x) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/// The sum of the lanes of each of N registers, N = 4 or less, in one order whatever N is.
template <int N>
KVSCOPE_AVX2 inline void store_sums(const __m256* x, float* out) {
  const __m256 second = x[1 % N], third = N > 2 ? x[2 % N] : x[0], fourth = N > 3 ? x[3 % N] : third;
  const __m256 quarters = _mm256_hadd_ps(_mm256_hadd_ps(x[0], second), _mm256_hadd_ps(third, fourth));
  float sums[4];
  _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(quarters), _mm256_extractf128_ps(quarters, 1)));
  for (int i = 0; i < N; ++i) out[i] = sums[i];
}

struct Avx2Tile {
  static constexpr int kRowsOfFour = 2;  // sixteen registers
  static constexpr int kLanes = 8;
  static constexpr int kSums = 8;

  template <int R, int T, typename Row>
  KVSCOPE_AVX2 static void run(const Row* rows, const float* x, std::int64_t dim, float* y, int y_stride) {
    const std::int64_t ahead = prefetch_distance<Row>(dim, R);
    __m256 sum[T][R];
    for (int r = 0; r < R; ++r) {
      for (int t = 0; t < T; ++t) sum[t][r] = _mm256_setzero_ps();
    }
    std::int64_t c = 0;
    for (; c + kLanes <= dim; c += kLanes) {
      __m256 vector[T];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) vector[t] = _mm256_loadu_ps(x + t * dim + c);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        _mm_prefetch(reinterpret_cast<const char*>(rows + r * dim + c + ahead), _MM_HINT_T1);
        const __m256 row = load_row(rows + r * dim + c);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) sum[t][r] = _mm256_fmadd_ps(row, vector[t], sum[t][r]);
      }
    }
    for (int t = 0; t < T; ++t) {
      constexpr int kAtOnce = R < 4 ? R : 4;
      for (int r = 0; r < R; r += kAtOnce) store_sums<kAtOnce>(sum[t] + r, y + t * y_stride + r);
      for (int r = 0; r < R; ++r) {
        for (std::int64_t i = c; i < dim; ++i) y[t * y_stride + r] += to_float(rows[r * dim + i]) * x[t * dim + i];
      }
    }
  }

  template <int T, int C, typename Row>
  KVSCOPE_AVX2 static void add(const Row* rows, const float* weights, int w_stride, std::int64_t dim, int n_rows,
                               std::int64_t column, float* o) {
    if (dim - column < C * kLanes) return add_rest<T>(rows, weights, w_stride, dim, n_rows, column, o);
    __m256 sum[T][C];
    for (int t = 0; t < T; ++t) {
      for (int c = 0; c < C; ++c) sum[t][c] = _mm256_loadu_ps(o + t * dim + column + c * kLanes);
    }
    for (int r = 0; r < n_rows; ++r) {
      __m256 row[C];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) row[c] = load_row(rows + r * dim + column + c * kLanes);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        const __m256 weight = _mm256_set1_ps(weights[t * w_stride + r]);
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) sum[t][c] = _mm256_fmadd_ps(weight, row[c], sum[t][c]);
      }
    }
    for (int t = 0; t < T; ++t) {
      for (int c = 0; c < C; ++c) _mm256_storeu_ps(o + t * dim + column + c * kLanes, sum[t][c]);
    }
  }

  /// The columns of the last register, if they do not fill it.
  template <int T, typename Row>
  static void add_rest(const Row* rows, const float* weights, int w_stride, std::int64_t dim, int n_rows,
                       std::int64_t column, float* o) {
    for (int t = 0; t < T; ++t) {
      for (std::int64_t c = column; c < dim; ++c) {
        for (int r = 0; r < n_rows; ++r) o[t * dim + c] += weights[t * w_stride + r] * to_float(rows[r * dim + c]);
      }
    }
  }
};

}  // namespace

const Gemv kGemvAvx2 = gemv_of_tiles<Avx2Tile>("avx2");

}  // namespace kvscope::kernels::cpu
#endif
