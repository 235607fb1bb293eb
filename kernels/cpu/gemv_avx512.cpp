// AVX-512, with and without its instructions for bfloat16. Only the functions marked with a target use them, so that
// the file itself runs anywhere.
#include "kernels/cpu/gemv.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu/gemv_tiles.h"

#define KVSCOPE_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma,avx2")))
#define KVSCOPE_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma,avx2")))

namespace kvscope::kernels::cpu {
namespace {

/// The first n of 16 lanes, n <= 16.
inline std::uint32_t first_lanes(std::int64_t n) { return (std::uint32_t{1} << n) - 1; }

KVSCOPE_AVX512 inline __m512 load_row(const float* x, __mmask16 lanes) { return _mm512_maskz_loadu_ps(lanes, x); }
KVSCOPE_AVX512 inline __m512 load_row(const BFloat16* x, __mmask16 lanes) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, x));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/// The sum of the lanes of each of N registers, N = 4 or less, in one order whatever N is.
template <int N>
KVSCOPE_AVX512 inline void store_sums(const __m512* x, float* out) {
  const auto half = [&](int i) __attribute__((target("avx512f,avx512dq"))) {
    return _mm256_add_ps(_mm512_castps512_ps256(x[i]), _mm512_extractf32x8_ps(x[i], 1));
  };
  const __m256 first = half(0), second = N > 1 ? half(1 % N) : first;
  const __m256 third = N > 2 ? half(2 % N) : first, fourth = N > 3 ? half(3 % N) : third;
  const __m256 quarters = _mm256_hadd_ps(_mm256_hadd_ps(first, second), _mm256_hadd_ps(third, fourth));
  const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(quarters), _mm256_extractf128_ps(quarters, 1));
  _mm_mask_storeu_ps(out, (1 << N) - 1, sums);
}

template <int R, int T>
KVSCOPE_AVX512 inline void store_tile(const __m512 (&sum)[T][R], float* y, int y_stride) {
  for (int t = 0; t < T; ++t) {
    constexpr int kAtOnce = R < 4 ? R : 4;
    for (int r = 0; r < R; r += kAtOnce) store_sums<kAtOnce>(sum[t] + r, y + t * y_stride + r);
  }
}

/// Rows of float or BFloat16 times vectors of float.
struct Avx512Tile {
  static constexpr int kRowsOfFour = 4;
  static constexpr int kLanes = 16;
  static constexpr int kSums = 16;

  template <int R, int T, typename Row>
  KVSCOPE_AVX512 static void run(const Row* rows, const float* x, std::int64_t dim, float* y, int y_stride) {
    const std::int64_t ahead = prefetch_distance<Row>(dim, R);
    __m512 sum[T][R];
    for (int r = 0; r < R; ++r) {
      for (int t = 0; t < T; ++t) sum[t][r] = _mm512_setzero_ps();
    }
    for (std::int64_t c = 0; c < dim; c += kLanes) {
      const auto lanes = static_cast<__mmask16>(dim - c >= kLanes ? 0xffff : first_lanes(dim - c));
      __m512 vector[T];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) vector[t] = _mm512_maskz_loadu_ps(lanes, x + t * dim + c);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        _mm_prefetch(reinterpret_cast<const char*>(rows + r * dim + c + ahead), _MM_HINT_T1);
        const __m512 row = load_row(rows + r * dim + c, lanes);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) sum[t][r] = _mm512_fmadd_ps(row, vector[t], sum[t][r]);
      }
    }
    store_tile<R, T>(sum, y, y_stride);
  }

  template <int T, int C, typename Row>
  KVSCOPE_AVX512 static void add(const Row* rows, const float* weights, int w_stride, std::int64_t dim, int n_rows,
                                 std::int64_t column, float* o) {
    const std::int64_t left = dim - column - (C - 1) * kLanes;  // of the last register
    const auto last = static_cast<__mmask16>(left >= kLanes ? 0xffff : first_lanes(left));
    const auto lanes = [&](int c) { return c == C - 1 ? last : static_cast<__mmask16>(0xffff); };
    __m512 sum[T][C];
    for (int t = 0; t < T; ++t) {
      for (int c = 0; c < C; ++c) sum[t][c] = _mm512_maskz_loadu_ps(lanes(c), o + t * dim + column + c * kLanes);
    }
    for (int r = 0; r < n_rows; ++r) {
      __m512 row[C];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) row[c] = load_row(rows + r * dim + column + c * kLanes, lanes(c));
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        const __m512 weight = _mm512_set1_ps(weights[t * w_stride + r]);
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) sum[t][c] = _mm512_fmadd_ps(weight, row[c], sum[t][c]);
      }
    }
    for (int t = 0; t < T; ++t) {
      for (int c = 0; c < C; ++c) _mm512_mask_storeu_ps(o + t * dim + column + c * kLanes, lanes(c), sum[t][c]);
    }
  }
};

/// Rows of BFloat16 times vectors of BFloat16, two products a lane and instruction, summed in float32.
///
/// One vector beside rows is a reading of memory and little else, and that is fastest in the order in which they lie
/// there: a row's sum waits for itself, but the processor has the next rows under way. Rows of 576 from memory, Zen 5:
/// eight side by side 23 to 26 GB/s on one core, 31 to 35 on two; one by one 28 to 37 and 38 to 44, as a loop that merely
/// reads. From a cache the two are alike or eight are up to a tenth faster; of float32, with twice the steps, they are
/// that anywhere.
struct Avx512Bf16Tile {
  static constexpr int kRowsOfFour = 4;
  static constexpr int kPairs = 32;
  static constexpr int kPrefetchBytes = 4096;  // over the page at which the processor's own prefetching ends

  KVSCOPE_AVX512_BF16 static __m512bh load(const BFloat16* x, __mmask32 lanes) {
    return reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(lanes, x));
  }

  template <int R, int T>
  KVSCOPE_AVX512_BF16 static void run(const BFloat16* rows, const BFloat16* x, std::int64_t dim, float* y,
                                      int y_stride) {
    __m512 sum[T][R];
    for (int r = 0; r < R; ++r) {
      for (int t = 0; t < T; ++t) sum[t][r] = _mm512_setzero_ps();
    }
    if constexpr (T == 1) {
      one_by_one<R>(rows, x, dim, sum[0]);
    } else {
      side_by_side<R, T>(rows, x, dim, sum);
    }
    store_tile<R, T>(sum, y, y_stride);
  }

  template <int R>
  KVSCOPE_AVX512_BF16 static void one_by_one(const BFloat16* rows, const BFloat16* x, std::int64_t dim,
                                             __m512 (&sum)[R]) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      for (std::int64_t c = 0; c < dim; c += kPairs) {
        const __mmask32 lanes = dim - c >= kPairs ? ~0u : first_lanes(dim - c);
        _mm_prefetch(reinterpret_cast<const char*>(rows + r * dim + c) + kPrefetchBytes, _MM_HINT_T1);
        sum[r] = _mm512_dpbf16_ps(sum[r], load(rows + r * dim + c, lanes), load(x + c, lanes));
      }
    }
  }

  template <int R, int T>
  KVSCOPE_AVX512_BF16 static void side_by_side(const BFloat16* rows, const BFloat16* x, std::int64_t dim,
                                               __m512 (&sum)[T][R]) {
    const std::int64_t ahead = prefetch_distance<BFloat16>(dim, R);
    for (std::int64_t c = 0; c < dim; c += kPairs) {
      const __mmask32 lanes = dim - c >= kPairs ? ~0u : first_lanes(dim - c);
      __m512bh vector[T];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) vector[t] = load(x + t * dim + c, lanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        _mm_prefetch(reinterpret_cast<const char*>(rows + r * dim + c + ahead), _MM_HINT_T1);
        const __m512bh row = load(rows + r * dim + c, lanes);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) sum[t][r] = _mm512_dpbf16_ps(sum[t][r], row, vector[t]);
      }
    }
  }
};

}  // namespace

const Gemv kGemvAvx512 = gemv_of_tiles<Avx512Tile>("avx512");
const Gemv kGemvAvx512Bf16 = gemv_of_tiles<Avx512Tile, Avx512Bf16Tile, BFloat16>("avx512-bf16");

}  // namespace kvscope::kernels::cpu
#endif
