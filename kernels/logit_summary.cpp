#include "kernels/logit_summary.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void logit_summary(const LogitSummaryArgs& args, Place place) {
  const ArgumentCheck check("logit_summary");
  check.range("n", args.n, 1, std::numeric_limits<std::int32_t>::max());
  check.pointers({{"logits", args.logits}, {"out", args.out}});
  KVSCOPE_RUN(logit_summary, args, place);
}

}  // namespace kvscope::kernels
