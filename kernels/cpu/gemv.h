#pragma once
// A few rows of weights times a few vectors, once for each instruction set: what `project` and `decode_attention` spend
// their time in. The processor is asked at run time.

#include <cstdint>
#include <span>

#include "kernels/bfloat16.h"

namespace kvscope::kernels::cpu {

/// One instruction set. Rows and vectors have `dim` elements and stand one after the other; pointers need no alignment.
///
///     y[t * y_stride + r] = sum_c rows[r][c] x[t][c]      r < n_rows, t < n_tokens
///
/// Each sum has an order of its own that depends on dim alone: on neither n_rows nor n_tokens.
struct Gemv {
  const char* name;
  bool narrow_vectors;  // x of `bf16` is BFloat16 (the processor multiplies pairs of them), otherwise float
  void (*f32)(const float* rows, const float* x, std::int64_t dim, int n_rows, int n_tokens, float* y, int y_stride);
  void (*bf16)(const BFloat16* rows, const void* x, std::int64_t dim, int n_rows, int n_tokens, float* y, int y_stride);
};

/// Those that this processor has, the best one first; the plain one is always there. Sanitizer builds have only that.
std::span<const Gemv* const> available_gemv();

inline const Gemv& best_gemv() {
  static const Gemv& best = *available_gemv().front();
  return best;
}

extern const Gemv kGemvPlain, kGemvAvx2, kGemvAvx512, kGemvAvx512Bf16;

}  // namespace kvscope::kernels::cpu
