#include "kernels/swiglu.h"

#include <algorithm>

#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kPiece = 1024;  // elements at a time, on the stack

void swiglu_piece(const SwigluArgs& args, std::int64_t from, std::int64_t to, int n) {
  float x_buffer[kPiece], up_buffer[kPiece], e[kPiece];
  const float* x = as_floats(args.gate_up, from, n, args.dtype, x_buffer);
  const float* up = as_floats(args.gate_up, from + args.dim, n, args.dtype, up_buffer);
  for (int i = 0; i < n; ++i) e[i] = -x[i];
  exp_and_sum(e, 0, n);
  for (int i = 0; i < n; ++i) e[i] = x[i] / (1 + e[i]) * up[i];
  store(e, args.out, to, n, args.dtype);
}

}  // namespace

void swiglu(const SwigluArgs& args) {
  parallel_for(args.n_rows, 20L * args.dim, [&](std::int64_t row) {
    for (int begin = 0; begin < args.dim; begin += kPiece) {
      swiglu_piece(args, row * 2 * args.dim + begin, row * args.dim + begin, std::min(kPiece, args.dim - begin));
    }
  });
}

}  // namespace kvscope::kernels::cpu
