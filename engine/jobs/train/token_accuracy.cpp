#include "engine/jobs/train/token_accuracy.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "engine/jobs/train/phase.h"
#include "engine/jobs/train/scorer_student.h"

namespace kvscope::engine {

double token_accuracy(const DecoderModule& student, const ScorerModule& scorer, const SequenceSource& heldout,
                      const ScorerOptions& options) {
  constexpr std::int64_t kRowsAtOnce = 512;  // of the product with the vocabulary
  const c10::NoGradGuard no_grad;
  std::int64_t n_right = 0, n = 0;
  for (int i = 0; i < options.accuracy_sequences; ++i) {
    const Batch batch = make_batch(heldout, static_cast<std::uint64_t>(i), 1);
    const at::Tensor rows = ids_tensor(batch, student.embedding().device());
    const at::Tensor ids = rows.narrow(1, 0, rows.size(1) - 1), next = rows.narrow(1, 1, ids.size(1)).flatten();
    const at::Tensor hidden = hidden_under(student, scorer, ids, options, options.top_k.front()).flatten(0, 1);
    for (std::int64_t first = 0; first < hidden.size(0); first += kRowsAtOnce) {
      const std::int64_t count = std::min(kRowsAtOnce, hidden.size(0) - first);
      const at::Tensor likeliest = at::matmul(hidden.narrow(0, first, count), student.output().t()).argmax(-1);
      n_right += (likeliest == next.narrow(0, first, count)).sum().item<std::int64_t>();
      n += count;
    }
  }
  return static_cast<double>(n_right) / static_cast<double>(n);
}

}  // namespace kvscope::engine
