#include "kernels/logit_summary.h"

#include <cmath>

namespace kvscope::kernels::reference {

void logit_summary(const LogitSummaryArgs& args) {
  LogitSummary summary = {-1, -INFINITY, 0, 0};
  for (std::int64_t i = 0; i < args.n; ++i) {
    if (args.logits[i] > summary.best_logit) summary = {static_cast<std::int32_t>(i), args.logits[i], 0, 0};
  }
  const double shift = summary.best < 0 ? 0 : summary.best_logit;  // -inf - -inf would be NaN
  double sum = 0;
  for (std::int64_t i = 0; i < args.n; ++i) sum += std::exp(args.logits[i] - shift);
  summary.log_sum_exp = static_cast<float>(shift + std::log(sum));
  *args.out = summary;
}

}  // namespace kvscope::kernels::reference
