#include "kernels/project.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cpu/gemv.h"
#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr int kBlock = 64;  // rows whose sums a thread holds at a time
// Bytes of weights that a thread takes at a time: enough to pay for taking them, and for what is fetched ahead of the
// end in vain; few enough to share out.
constexpr std::int64_t kLeastChunk = 32 * 1024, kMostChunk = 512 * 1024;
constexpr int kChunksAThread = 8;
// Of the next product's weights what a thread without work may fetch: half of a second cache of 1 MiB.
constexpr std::int64_t kMostAhead = 512 * 1024;

/// The vectors n of a call, as the products want them.
class Inputs {
 public:
  /// Valid until the next call on this thread: these run once an operation, and an allocation would cost as much as the
  /// norm.
  const void* prepare(const ProjectArgs& args) {
    const std::int64_t n = static_cast<std::int64_t>(args.n_tokens) * args.dim;
    const bool narrow_wanted = args.dtype == DType::bf16 && best_gemv().narrow_vectors;
    if (!args.norm_weight && (args.dtype == DType::f32 || narrow_wanted)) return args.x;
    floats_.resize(n);
    if (args.norm_weight) {
      norm(args);
      if (args.dtype == DType::f32) return floats_.data();
      narrow_.resize(n);
      narrow(floats_.data(), narrow_.data(), n);
      if (narrow_wanted) return narrow_.data();
    }
    widen(args.norm_weight ? narrow_.data() : static_cast<const BFloat16*>(args.x), floats_.data(), n);
    return floats_.data();
  }

 private:
  void norm(const ProjectArgs& args) {
    weight_.resize(args.dim);
    const float* weight = norm_factors(args.norm_weight, args.dim, args.dtype, args.norm_offset, weight_.data());
    for (std::int64_t t = 0; t < args.n_tokens; ++t) {
      const float* x = static_cast<const float*>(args.x) + t * args.dim;
      const float inverse = 1 / std::sqrt(dot(x, x, args.dim) / static_cast<float>(args.dim) + args.eps);
      scale_by(floats_.data() + t * args.dim, x, inverse, weight, args.dim);
    }
  }

  std::vector<float> floats_, weight_;
  std::vector<BFloat16> narrow_;
};

/// Outputs first ... first + n - 1 of every token, n <= kBlock.
void project_block(const ProjectArgs& args, const void* x, std::int64_t first, int n) {
  const std::int64_t n_out = is_gated(args.epilogue) ? args.n_rows / 2 : args.n_rows;
  float y[kMaxProjectTokens][kBlock];
  float other[kMaxProjectTokens][kBlock];  // up, or the bias in row 0
  const auto multiply_rows = [&](std::int64_t row, float* products) {
    best_gemv().multiply(args.dtype, args.weight, row * args.dim, x, args.dim, n, args.n_tokens, products, kBlock);
  };
  multiply_rows(first, y[0]);
  if (is_gated(args.epilogue)) multiply_rows(n_out + first, other[0]);
  const float* bias = args.bias ? as_floats(args.bias, first, n, args.dtype, other[0]) : nullptr;
  for (int t = 0; t < args.n_tokens; ++t) {
    const std::int64_t at = t * n_out + first;
    if (bias) add_scaled(y[t], 1, bias, n);
    if (args.epilogue == Epilogue::swiglu) swiglu(y[t], other[t], n);
    if (args.epilogue == Epilogue::geglu) geglu(y[t], other[t], n);
    if (args.epilogue == Epilogue::silu) silu(y[t], n);
    if (args.epilogue == Epilogue::gelu) gelu(y[t], n);
    for (int i = 0; args.epilogue == Epilogue::sigmoid && i < n; ++i) y[t][i] = 1.0f / (1.0f + std::exp(-y[t][i]));
    if (args.epilogue == Epilogue::add) {
      add_scaled(static_cast<float*>(args.out) + at, 1, y[t], n);
    } else {
      store(y[t], args.out, at, n, writes_floats(args.epilogue) ? DType::f32 : args.dtype);
    }
  }
}

/// Which weights followed which the last time: a decode step goes through the same products in the same order.
class Order {
 public:
  /// What follows `weight` now and its bytes; null the first time. Addresses only: a model that is gone leaves some behind.
  std::pair<const void*, std::int64_t> follow(const void* weight, std::int64_t bytes) {
    next_[last_] = {weight, bytes};
    last_ = weight;
    const auto at = next_.find(weight);
    return at == next_.end() ? std::pair<const void*, std::int64_t>() : at->second;
  }

 private:
  std::unordered_map<const void*, std::pair<const void*, std::int64_t>> next_;
  const void* last_ = nullptr;
};

}  // namespace

void project(const ProjectArgs& args) {
  thread_local Inputs inputs;
  const void* x = inputs.prepare(args);
  thread_local Order order;
  const std::int64_t weight_bytes = args.n_rows * args.dim * static_cast<std::int64_t>(size_of(args.dtype));
  if (const auto [next, n] = order.follow(args.weight, weight_bytes); next != nullptr)
    fetch_when_idle(next, std::min(n, kMostAhead));
  const std::int64_t products = is_gated(args.epilogue) ? 2 : 1;  // rows that an output needs
  const std::int64_t n_out = args.n_rows / products;
  const std::int64_t row_bytes = products * args.dim * static_cast<std::int64_t>(size_of(args.dtype));
  const std::int64_t bytes = std::clamp(n_out * row_bytes / (kChunksAThread * thread_count()), kLeastChunk, kMostChunk);
  const std::int64_t chunk = std::max<std::int64_t>(bytes / row_bytes / 8 * 8, 8);
  parallel_for((n_out + chunk - 1) / chunk, 2 * chunk * products * args.dim * args.n_tokens, [&](std::int64_t i) {
    const std::int64_t end = std::min((i + 1) * chunk, n_out);
    for (std::int64_t first = i * chunk; first < end; first += kBlock) {
      project_block(args, x, first, static_cast<int>(std::min<std::int64_t>(kBlock, end - first)));
    }
  });
}

}  // namespace kvscope::kernels::cpu
