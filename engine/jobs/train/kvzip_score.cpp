#include "engine/jobs/train/kvzip_score.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

#include "engine/jobs/train/future_target.h"

namespace kvscope::engine {
namespace {

constexpr double kSmallestNorm = 1e-30;  // its logarithm is finite: a value of 0 matters to no query
constexpr double kNever = -std::numeric_limits<double>::infinity();

}  // namespace

at::Tensor log_kvzip_plus(const DecoderModule::Heads& heads, const at::Tensor& output_projection, double scale,
                          const RepeatSpan& span, std::int64_t chunk) {
  const c10::NoGradGuard no_grad;
  const auto n_batch = heads.q.size(0), n_kv_heads = heads.k.size(2), group = heads.q.size(2) / n_kv_heads,
             n_keys = span.repetition + span.n, rows = chunk == 0 ? usual_chunk(heads.q) : chunk;
  const auto head_first = [](const at::Tensor& x) { return x.to(at::kFloat).transpose(1, 2); };
  const at::Tensor keys = head_first(heads.k.narrow(1, 0, n_keys)).unsqueeze(2);  // [B, HK, 1, keys, D]
  const at::Tensor position = at::arange(n_keys, at::TensorOptions(heads.q.device()));
  at::Tensor greatest = at::full({n_batch, n_kv_heads, group, span.n}, kNever, keys.options());
  for (std::int64_t begin = span.repetition; begin < n_keys; begin += rows) {
    const std::int64_t n = std::min(rows, n_keys - begin), n_seen = begin + n;
    const at::Tensor queries = head_first(heads.q.narrow(1, begin, n)).unflatten(1, {n_kv_heads, group});
    const at::Tensor later = position.narrow(0, 0, n_seen) > position.narrow(0, begin, n).unsqueeze(1);
    const at::Tensor scores =
        (scale * at::matmul(queries, keys.narrow(3, 0, n_seen).transpose(-1, -2))).masked_fill(later, kNever);
    const at::Tensor input = heads.input.narrow(1, begin, n).to(at::kFloat).norm(2, -1).clamp_min(kSmallestNorm);
    const at::Tensor divisor = scores.logsumexp(-1) + input.log().view({n_batch, 1, 1, n});  // of a row, in logarithms
    const at::Tensor of_text = scores.narrow(-1, span.text, span.n) - divisor.unsqueeze(-1);
    greatest = at::maximum(greatest, of_text.amax(3));
  }
  const at::Tensor weight = value_weight(heads.v.narrow(1, span.text, span.n), TargetWeight::output, output_projection);
  return (greatest + weight.clamp_min(kSmallestNorm).log()).amax(2);
}

}  // namespace kvscope::engine
