#include "kernels/ring_convolve.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kPiece = 512;  // units at a time, on the stack

/// sum[i] += tap[i] x[i]
KVSCOPE_CLONES void add_product(float* sum, const float* tap, const float* x, int n) {
  for (int i = 0; i < n; ++i) sum[i] += tap[i] * x[i];
}

void convolve_piece(const RingConvolveArgs& args, std::int64_t begin, int n) {
  const std::int64_t dim = args.dim, taps = args.n_taps, p = *args.position;
  const std::size_t element = size_of(args.dtype);
  std::memcpy(static_cast<char*>(args.ring) + (p % taps * dim + begin) * element,
              static_cast<const char*>(args.row) + begin * element, static_cast<std::size_t>(n) * element);
  float sum[kPiece] = {}, buffer[kPiece];
  for (std::int64_t j = std::max<std::int64_t>(0, taps - 1 - p); j < taps; ++j) {
    const std::int64_t row = (p - taps + 1 + j) % taps * dim + begin;
    add_product(sum, args.taps + j * dim + begin, as_floats(args.ring, row, n, args.dtype, buffer), n);
  }
  store(sum, args.out, begin, n, args.dtype);
}

}  // namespace

void ring_convolve(const RingConvolveArgs& args) {
  const std::int64_t n_pieces = (args.dim + kPiece - 1) / kPiece;
  parallel_for(n_pieces, 2L * kPiece * args.n_taps, [&](std::int64_t piece) {
    const std::int64_t begin = piece * kPiece;
    convolve_piece(args, begin, static_cast<int>(std::min<std::int64_t>(kPiece, args.dim - begin)));
  });
}

}  // namespace kvscope::kernels::cpu
