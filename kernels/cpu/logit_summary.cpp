#include "kernels/logit_summary.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

constexpr std::int64_t kChunk = 4096;

/// The greatest logit of a chunk (-inf: none) and the sum of exp(logit - greatest). A NaN makes the sum NaN.
struct Part {
  float greatest;
  float sum;
};

}  // namespace

void logit_summary(const LogitSummaryArgs& args) {
  const std::int64_t n_chunks = (args.n + kChunk - 1) / kChunk;
  thread_local std::vector<Part> buffer;
  buffer.resize(n_chunks);
  Part* parts = buffer.data();  // of the caller: a worker's own buffer has the same name
  parallel_for(n_chunks, 20 * kChunk, [&](std::int64_t i) {
    const float* logits = args.logits + i * kChunk;
    const std::int64_t n = std::min(kChunk, args.n - i * kChunk);
    const float greatest = maximum(logits, n);
    parts[i] = {greatest, sum_of_exp(logits, greatest == -INFINITY ? 0 : greatest, n)};
  });

  std::int64_t best = 0;  // the first chunk that has the greatest
  for (std::int64_t i = 1; i < n_chunks; ++i) {
    if (parts[i].greatest > parts[best].greatest) best = i;
  }
  const float greatest = parts[best].greatest;
  const float shift = greatest == -INFINITY ? 0 : greatest;
  double sum = 0;
  for (std::int64_t i = 0; i < n_chunks; ++i) {
    const double weight = parts[i].greatest == -INFINITY ? 1 : std::exp(static_cast<double>(parts[i].greatest) - shift);
    sum += parts[i].sum * weight;
  }
  std::int32_t id = -1;
  if (greatest > -INFINITY) {
    const float* begin = args.logits + best * kChunk;
    id = static_cast<std::int32_t>(std::find(begin, args.logits + args.n, greatest) - args.logits);
  }
  *args.out = {id, greatest, static_cast<float>(shift + std::log(sum)), 0};
}

}  // namespace kvscope::kernels::cpu
