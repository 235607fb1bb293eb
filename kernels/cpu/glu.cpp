#include "kernels/glu.h"

#include <algorithm>

#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kPiece = 1024;  // elements at a time, on the stack

void glu_piece(const GluArgs& args, std::int64_t from, std::int64_t to, int n) {
  float gate[kPiece], up[kPiece];
  copy_floats(args.gate_up, from, n, args.dtype, gate);
  const float* factor = as_floats(args.gate_up, from + args.dim, n, args.dtype, up);
  activate(args.activation, gate, factor, n);
  store(gate, args.out, to, n, args.dtype);
}

}  // namespace

void glu(const GluArgs& args) {
  parallel_for(args.n_rows, 20L * args.dim, [&](std::int64_t row) {
    for (int begin = 0; begin < args.dim; begin += kPiece) {
      glu_piece(args, row * 2 * args.dim + begin, row * args.dim + begin, std::min(kPiece, args.dim - begin));
    }
  });
}

}  // namespace kvscope::kernels::cpu
