#include "kernels/logit_summary.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {
namespace {

void check_args(const LogitSummaryArgs& args) {
  const ArgumentCheck check("logit_summary");
  check.range("n", args.n, 1, std::numeric_limits<std::int32_t>::max());
  check.pointers({{"logits", args.logits}, {"out", args.out}});
}

}  // namespace

KVSCOPE_RUN_ROWS(logit_summary, LogitSummaryArgs);

}  // namespace kvscope::kernels
