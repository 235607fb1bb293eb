#include "kernels/expert_mlp.h"

#include <cmath>
#include <vector>

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {
namespace {

/// n of one token, rounded to dtype.
std::vector<double> normed(const ExpertMlpArgs& args, std::int64_t token) {
  const float* x = args.x + token * args.dim;
  double sum = 0;
  for (int c = 0; c < args.dim; ++c) sum += static_cast<double>(x[c]) * x[c];
  const double inverse = 1 / std::sqrt(sum / args.dim + args.eps);
  std::vector<double> n(args.dim);
  for (int c = 0; c < args.dim; ++c)
    n[c] = rounded(static_cast<float>(x[c] * inverse * load(args.norm_weight, c, args.dtype)), args.dtype);
  return n;
}

double bias_of(const void* bias, std::int64_t index, DType dtype) { return bias ? load(bias, index, dtype) : 0; }

}  // namespace

void expert_mlp(const ExpertMlpArgs& args) {
  const std::int64_t dim = args.dim, ff = args.ff;
  for (std::int64_t token = 0; token < args.n_tokens; ++token) {
    const std::vector<double> n = normed(args, token);
    std::vector<double> sum(args.dim);
    for (std::int64_t slot = token * args.n_chosen; slot < (token + 1) * args.n_chosen; ++slot) {
      const std::int64_t expert = args.expert[slot];
      for (std::int64_t r = 0; r < ff; ++r) {
        double gate = bias_of(args.gate_up_bias, expert * 2 * ff + r, args.dtype);
        double up = bias_of(args.gate_up_bias, expert * 2 * ff + ff + r, args.dtype);
        for (std::int64_t c = 0; c < dim; ++c) {
          gate += load(args.gate_up, (expert * 2 * ff + r) * dim + c, args.dtype) * n[c];
          up += load(args.gate_up, (expert * 2 * ff + ff + r) * dim + c, args.dtype) * n[c];
        }
        store(args.activation, slot * ff + r, args.dtype, gated(args.gate, gate, up));
      }
      for (std::int64_t r = 0; r < dim; ++r) {
        double y = bias_of(args.down_bias, expert * dim + r, args.dtype);
        for (std::int64_t c = 0; c < ff; ++c)
          y += load(args.down, (expert * dim + r) * ff + c, args.dtype) *
               load(args.activation, slot * ff + c, args.dtype);
        sum[r] += args.weight[slot] * y;
      }
    }
    for (std::int64_t r = 0; r < dim; ++r) {
      float& out = args.out[token * dim + r];
      out = static_cast<float>(out + sum[r]);
    }
  }
}

}  // namespace kvscope::kernels::reference
