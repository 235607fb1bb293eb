#pragma once
// How pages are compared, shared word for word by the three back ends so that they read the same pages.

#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

namespace kvscope::kernels {

/// The order in which pages are taken, the greatest rank first, of equal ranks the lower page:
///
///     0                                  no token in it: never read
///     0x007fffff ... 0xff800000          a score, -inf to +inf; a NaN as +inf, so that it is read and seen
///     0xff800001 ... 0xffffffff          read whatever the score: the younger the newest token, the greater
using PageRank = std::uint32_t;
constexpr PageRank kNoTokens = 0;
constexpr PageRank kBestScore = 0xff800000u;

/// Positive floats are ordered as their bits are, negative ones the other way round.
KVSCOPE_HOST_DEVICE inline PageRank rank_of_score(float score) {
  if (score != score) return kBestScore;
  const float x = score == 0 ? 0.0f : score;  // -0 is 0
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

/// `age`: *position less the position of the page's newest token. Tokens more than 8 million apart are equally old.
KVSCOPE_HOST_DEVICE inline PageRank rank_of_age(std::int32_t age) {
  constexpr std::int32_t kOldest = 0x7ffffe;
  return 0xffffffffu - static_cast<PageRank>(age < 0 ? 0 : age > kOldest ? kOldest : age);
}

/// What one channel adds to a page's score: the most that q times a number between low and high can be. Between product
/// and sum stands a choice, so that host compilers find no multiply-add to contract.
KVSCOPE_HOST_DEVICE inline float page_term(float q, float low, float high) {
#ifdef __CUDA_ARCH__
  const float a = __fmul_rn(q, low), b = __fmul_rn(q, high);  // never contracted, whatever the file is compiled with
#else
  const float a = q * low, b = q * high;
#endif
  return a > b ? a : b;
}

/// The order in which the terms are added up: channel c to partial sum c % 32, then the partial sums' halves, 16, 8,
/// ... (the sum of a warp whose lane l has channels l, l + 32, ...).
inline float page_score(const float* q, const float* low, const float* high, int head_dim) {
  constexpr int kLanes = 32;
  float sum[kLanes] = {};
  int c = 0;
  for (; c + kLanes <= head_dim; c += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sum[lane] += page_term(q[c + lane], low[c + lane], high[c + lane]);
  }
  for (int lane = 0; c + lane < head_dim; ++lane) sum[lane] += page_term(q[c + lane], low[c + lane], high[c + lane]);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  }
  return sum[0];
}

}  // namespace kvscope::kernels
