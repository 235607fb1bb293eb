#include "kernels/mlstm_prompt.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

std::int64_t mlstm_prompt_scratch_floats(const MlstmPromptArgs& args) {
  const std::int64_t blocks = (args.n + 127) / 128, d = args.head_dim;
  const std::int64_t of_token = 3 * d + 8;  // cuda/mlstm_prompt.cuh
  return args.n_kv_heads * (args.n * of_token + blocks * (d * d + d + 4));
}

void mlstm_prompt(const MlstmPromptArgs& args, Place place) {
  const ArgumentCheck check("mlstm_prompt");
  check.dtype(args.dtype);
  check.range("n_kv_heads", args.n_kv_heads, 1, 65535);
  check.range("head_dim", args.head_dim, 2, 256);
  check.even("head_dim", args.head_dim);
  check.range("n", args.n, 0, kMlstmPromptTokens);
  check.range("first", args.first, 0, kMaxTokens - args.n);
  check.range("delay", args.scorer.delay, 0, kMaxTokens);
  if (args.n == 0) return;
  const std::int64_t row = static_cast<std::int64_t>(args.n_kv_heads) * args.head_dim;
  check.range("k_stride", args.k_stride, row, std::numeric_limits<std::int64_t>::max());
  check.range("v_stride", args.v_stride, row, std::numeric_limits<std::int64_t>::max());
  check.multiple("k_stride", args.k_stride, 8, "a multiple of 8");
  check.multiple("v_stride", args.v_stride, 8, "a multiple of 8");
  const MlstmScorerView& s = args.scorer;
  check.pointers({{"k", args.k},
                  {"v", args.v},
                  {"score", args.score},
                  {"project", s.project},
                  {"bias", s.bias},
                  {"read", s.read},
                  {"c", s.c},
                  {"z", s.z},
                  {"m", s.m}});
  if (place.is_cuda()) check.pointer("scratch", args.scratch);
  if (s.delay > 0) check.pointers({{"queries", s.queries}, {"direct", s.direct}});
  KVSCOPE_RUN(mlstm_prompt, args, place);
}

}  // namespace kvscope::kernels
