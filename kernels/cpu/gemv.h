#pragma once
// A few rows of weights times a few vectors, once for each instruction set: what `project` and `decode_attention` spend
// their time in. The processor is asked at run time.

#include <cstdint>
#include <span>

#include "kernels/bfloat16.h"
#include "kernels/dtype.h"

namespace kvscope::kernels::cpu {

/// One instruction set. Rows and vectors have `dim` elements and stand one after the other; pointers need no alignment.
///
///     products   y[t * y_stride + r]  = sum_c rows[r][c] x[t][c]                  r < n_rows, t < n_tokens
///     sums       o[t * dim + c]      += sum_r weights[t * w_stride + r] rows[r][c]
///
/// Each sum has an order of its own: y's depends on dim alone, o's goes from row to row; neither depends on n_tokens.
struct Gemv {
  const char* name;
  bool narrow_vectors;  // x is BFloat16 beside such rows (the processor multiplies pairs of them), otherwise float
  // One function for rows of each DType.
  void (*products[2])(const void* rows, const void* x, std::int64_t dim, int n_rows, int n_tokens, float* y,
                      int y_stride);
  void (*sums[2])(const void* rows, const float* weights, int w_stride, std::int64_t dim, int n_rows, int n_tokens,
                  float* o);

  /// The rows that begin at element `first` of `data`.
  void multiply(DType dtype, const void* data, std::int64_t first, const void* x, std::int64_t dim, int n_rows,
                int n_tokens, float* y, int y_stride) const {
    products[static_cast<int>(dtype)](element_at(data, first, dtype), x, dim, n_rows, n_tokens, y, y_stride);
  }
  void add(DType dtype, const void* data, std::int64_t first, const float* weights, int w_stride, std::int64_t dim,
           int n_rows, int n_tokens, float* o) const {
    sums[static_cast<int>(dtype)](element_at(data, first, dtype), weights, w_stride, dim, n_rows, n_tokens, o);
  }
};

/// Those that this processor has, the best one first; the plain one is always there. Sanitizer builds have only that.
std::span<const Gemv* const> available_gemv();

inline const Gemv& best_gemv() {
  static const Gemv& best = *available_gemv().front();
  return best;
}

extern const Gemv kGemvPlain, kGemvAvx2, kGemvAvx512, kGemvAvx512Bf16;

}  // namespace kvscope::kernels::cpu
