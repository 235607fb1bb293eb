#include "kernels/expert_mlp.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/gemv.h"
#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kBlock = 64;  // rows whose sums a thread holds at a time

/// Vectors as the products want them: as they are, or widened.
class Vectors {
 public:
  /// n vectors of `dim` elements of `dtype`, valid until the next call.
  void widen_for_products(const void* data, std::int64_t n, std::int64_t dim, DType dtype) {
    dim_ = dim;
    type_ = dtype;
    data_ = data;
    if (dtype == DType::f32 || best_gemv().narrow_vectors) return;
    floats_.resize(static_cast<std::size_t>(n * dim));
    widen(static_cast<const BFloat16*>(data), floats_.data(), n * dim);
    data_ = floats_.data();
    type_ = DType::f32;
  }
  const void* at(std::int64_t index) const { return element_at(data_, index * dim_, type_); }

 private:
  std::vector<float> floats_;
  const void* data_ = nullptr;
  std::int64_t dim_ = 0;
  DType type_ = DType::f32;
};

/// The normed rows of all tokens, in dtype.
class NormedRows {
 public:
  const void* prepare(const ExpertMlpArgs& args) {
    const std::int64_t dim = args.dim, n = args.n_tokens * dim;
    weight_.resize(static_cast<std::size_t>(dim));
    floats_.resize(static_cast<std::size_t>(n));
    const float* weight = as_floats(args.norm_weight, 0, dim, args.dtype, weight_.data());
    for (std::int64_t t = 0; t < args.n_tokens; ++t) {
      const float* x = args.x + t * dim;
      const float inverse = 1 / std::sqrt(dot(x, x, dim) / static_cast<float>(dim) + args.eps);
      scale_by(floats_.data() + t * dim, x, inverse, weight, dim);
    }
    if (args.dtype == DType::f32) return floats_.data();
    narrow_.resize(static_cast<std::size_t>(n));
    narrow(floats_.data(), narrow_.data(), n);
    return narrow_.data();
  }

 private:
  std::vector<float> weight_, floats_;
  std::vector<BFloat16> narrow_;
};

int blocks_of(int rows) { return (rows + kBlock - 1) / kBlock; }

/// y[i] += bias[from + i], where there is a bias.
void add_bias(const void* bias, std::int64_t from, int n, DType dtype, float* y) {
  float buffer[kBlock];
  if (bias != nullptr) add_scaled(y, 1, as_floats(bias, from, n, dtype, buffer), n);
}

/// Channels first ... first + n - 1 of the activation of one token's expert.
void activate_block(const ExpertMlpArgs& args, const void* n_row, std::int64_t slot, int first, int n) {
  const std::int64_t row = static_cast<std::int64_t>(args.expert[slot]) * 2 * args.ff + first;
  float gate[kBlock], up[kBlock];
  const auto multiply = [&](std::int64_t from, float* y) {
    best_gemv().multiply(args.dtype, args.gate_up, from * args.dim, n_row, args.dim, n, 1, y, kBlock);
    add_bias(args.gate_up_bias, from, n, args.dtype, y);
  };
  multiply(row, gate);
  multiply(row + args.ff, up);
  activate(args.gate, gate, up, n);
  store(gate, args.activation, slot * args.ff + first, n, args.dtype);
}

/// Features first ... first + n - 1 of one token's output.
void add_block(const ExpertMlpArgs& args, const Vectors& activations, std::int64_t token, int first, int n) {
  float sum[kBlock] = {}, y[kBlock];
  for (std::int64_t slot = token * args.n_chosen; slot < (token + 1) * args.n_chosen; ++slot) {
    const std::int64_t row = static_cast<std::int64_t>(args.expert[slot]) * args.dim + first;
    best_gemv().multiply(args.dtype, args.down, row * args.ff, activations.at(slot), args.ff, n, 1, y, kBlock);
    add_bias(args.down_bias, row, n, args.dtype, y);
    add_scaled(sum, args.weight[slot], y, n);
  }
  add_scaled(args.out + token * args.dim + first, 1, sum, n);
}

}  // namespace

void expert_mlp(const ExpertMlpArgs& args) {
  // Kept between calls: these run once a layer and token, and an allocation would cost as much as the norm.
  thread_local NormedRows rows;
  thread_local Vectors inputs, activations;
  Vectors &n_rows = inputs, &a_rows = activations;  // of this thread, for the others too
  n_rows.widen_for_products(rows.prepare(args), args.n_tokens, args.dim, args.dtype);
  const std::int64_t n_slots = static_cast<std::int64_t>(args.n_tokens) * args.n_chosen;
  const int up_blocks = blocks_of(args.ff), down_blocks = blocks_of(args.dim);
  parallel_for(n_slots * up_blocks, 4L * kBlock * args.dim, [&](std::int64_t i) {
    const std::int64_t slot = i / up_blocks;
    const int first = static_cast<int>(i % up_blocks) * kBlock;
    activate_block(args, n_rows.at(slot / args.n_chosen), slot, first, std::min(kBlock, args.ff - first));
  });
  a_rows.widen_for_products(args.activation, n_slots, args.ff, args.dtype);
  parallel_for(static_cast<std::int64_t>(args.n_tokens) * down_blocks, 2L * kBlock * args.ff * args.n_chosen,
               [&](std::int64_t i) {
                 const int first = static_cast<int>(i % down_blocks) * kBlock;
                 add_block(args, a_rows, i / down_blocks, first, std::min(kBlock, args.dim - first));
               });
}

}  // namespace kvscope::kernels::cpu
