#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// What greedy decoding and a trace want of a row of logits, without its 600 kB crossing to the host.
struct LogitSummary {
  std::int32_t best;  // id of the greatest logit, of equal ones the least; -1 if none is a number
  float best_logit;
  float log_sum_exp;  // ln sum exp; NaN if any logit is NaN
  float reserved;
};

struct LogitSummaryArgs {
  const float* logits;  // [n]
  LogitSummary* out;
  std::int64_t n;           // 1 ... 2^31 - 1
  void* scratch = nullptr;  // CUDA: kLogitSummaryScratchBytes, zero before the first call and left zero by each
};
inline constexpr int kLogitSummaryBlocks = 64;
inline constexpr std::int64_t kLogitSummaryScratchBytes = 16 * (kLogitSummaryBlocks + 1);

KVSCOPE_OPERATION_OF_ROWS(logit_summary, LogitSummaryArgs);

}  // namespace kvscope::kernels
