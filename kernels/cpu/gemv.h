#pragma once
// A few rows of weights times a few vectors, once for each instruction set: what `project` and `decode_attention` spend
// their time in. The processor is asked at run time.

#include <cstdint>
#include <span>

#include "kernels/bfloat16.h"

namespace kvscope::kernels::cpu {

/// One instruction set. Rows and vectors have `dim` elements and stand one after the other; pointers need no alignment.
///
///     f32, bf16           y[t * y_stride + r]  = sum_c rows[r][c] x[t][c]                  r < n_rows, t < n_tokens
///     add_f32, add_bf16   o[t * dim + c]      += sum_r weights[t * w_stride + r] rows[r][c]
///
/// Each sum has an order of its own: y's depends on dim alone, o's goes from row to row; neither depends on n_tokens.
struct Gemv {
  const char* name;
  bool narrow_vectors;  // x of `bf16` is BFloat16 (the processor multiplies pairs of them), otherwise float
  void (*f32)(const float* rows, const float* x, std::int64_t dim, int n_rows, int n_tokens, float* y, int y_stride);
  void (*bf16)(const BFloat16* rows, const void* x, std::int64_t dim, int n_rows, int n_tokens, float* y, int y_stride);
  void (*add_f32)(const float* rows, const float* weights, int w_stride, std::int64_t dim, int n_rows, int n_tokens,
                  float* o);
  void (*add_bf16)(const BFloat16* rows, const float* weights, int w_stride, std::int64_t dim, int n_rows, int n_tokens,
                   float* o);
};

/// Those that this processor has, the best one first; the plain one is always there. Sanitizer builds have only that.
std::span<const Gemv* const> available_gemv();

inline const Gemv& best_gemv() {
  static const Gemv& best = *available_gemv().front();
  return best;
}

extern const Gemv kGemvPlain, kGemvAvx2, kGemvAvx512, kGemvAvx512Bf16;

}  // namespace kvscope::kernels::cpu
