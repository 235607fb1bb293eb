#pragma once
// How a product of rows and vectors is cut into tiles whose sums stay in registers.

#include <type_traits>

#include "kernels/cpu/gemv.h"

namespace kvscope::kernels::cpu {

/// How far ahead of a tile of `n_rows` rows memory is asked for, in elements: the processor's own prefetching ends at
/// each page, and a page is a few short rows or a part of a long one. Into the second cache (T1): the first has too few
/// buffers for what is on its way. Rows of 576 from memory, Zen 4: 8.3 GB/s on one core and 17 on two into the first,
/// 15 and 24 into the second, as without any where rows are read one by one.
template <typename Row>
std::int64_t prefetch_distance(std::int64_t dim, int n_rows) {
  constexpr std::int64_t kAhead = 1024 / sizeof(Row);
  return dim >= 4 * kAhead ? kAhead : n_rows * dim;
}

/// Tile::run<R, T>(rows, x, dim, y, y_stride) does R rows times T vectors; its sums must not depend on R and T. A tile
/// has at least eight sums, because an addition takes as long as eight can be begun in; Tile::kRowsOfFour rows times
/// four vectors are as many as there are registers for.
template <typename Tile, typename Row, typename X>
void for_each_tile(const void* from, const void* vectors, std::int64_t dim, int n_rows, int n_tokens, float* y,
                   int y_stride) {
  const auto* rows = static_cast<const Row*>(from);
  const auto* x = static_cast<const X*>(vectors);
  constexpr int kOfFour = Tile::kRowsOfFour;
  const auto run = [&]<int R>(int r) {
    int t = 0;
    for (; t + 4 <= n_tokens && R <= kOfFour; t += 4) {
      Tile::template run<R <= kOfFour ? R : 1, 4>(rows + r * dim, x + t * dim, dim, y + t * y_stride + r, y_stride);
    }
    for (; t + 2 <= n_tokens && R <= 4; t += 2) {
      Tile::template run<R <= 4 ? R : 1, 2>(rows + r * dim, x + t * dim, dim, y + t * y_stride + r, y_stride);
    }
    for (; t < n_tokens; ++t)
      Tile::template run<R, 1>(rows + r * dim, x + t * dim, dim, y + t * y_stride + r, y_stride);
  };
  int r = 0;
  for (; n_tokens == 1 && r + 8 <= n_rows; r += 8) run.template operator()<8>(r);
  for (; (n_tokens < 4 || kOfFour == 4) && r + 4 <= n_rows; r += 4) run.template operator()<4>(r);
  for (; r + 2 <= n_rows; r += 2) run.template operator()<2>(r);
  for (; r < n_rows; ++r) run.template operator()<1>(r);
}

/// Tile::add<T, C>(rows, weights, w_stride, dim, n_rows, column, o) does T vectors times C registers of columns from
/// `column` on; the last register of a row may be a part of one. C = 4 wherever registers and columns are there.
template <typename Tile, typename Row>
void add_each_tile(const void* from, const float* weights, int w_stride, std::int64_t dim, int n_rows, int n_tokens,
                   float* o) {
  const auto* rows = static_cast<const Row*>(from);
  const auto run = [&]<int T>(int t) {
    constexpr int kWide = T * 4 <= Tile::kSums ? 4 : Tile::kSums / T;
    std::int64_t c = 0;
    for (; c + kWide * Tile::kLanes <= dim; c += kWide * Tile::kLanes) {
      Tile::template add<T, kWide>(rows, weights + t * w_stride, w_stride, dim, n_rows, c, o + t * dim);
    }
    for (; c < dim; c += Tile::kLanes) {
      Tile::template add<T, 1>(rows, weights + t * w_stride, w_stride, dim, n_rows, c, o + t * dim);
    }
  };
  int t = 0;
  for (; t + 4 <= n_tokens; t += 4) run.template operator()<4>(t);
  for (; t + 2 <= n_tokens; t += 2) run.template operator()<2>(t);
  for (; t < n_tokens; ++t) run.template operator()<1>(t);
}

/// What a file of an instruction set offers: PairTile multiplies rows of BFloat16 with vectors of X.
template <typename Tile, typename PairTile = Tile, typename X = float>
constexpr Gemv gemv_of_tiles(const char* name) {
  return {name,
          std::is_same_v<X, BFloat16>,
          {for_each_tile<Tile, float, float>, for_each_tile<PairTile, BFloat16, X>},
          {add_each_tile<Tile, float>, add_each_tile<Tile, BFloat16>}};
}

}  // namespace kvscope::kernels::cpu
