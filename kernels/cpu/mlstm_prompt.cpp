#include "kernels/mlstm_prompt.h"

#include "kernels/bfloat16.h"
#include "kernels/cpu/heads.h"
#include "kernels/cpu/vector.h"
#include "kernels/parallel_for.h"

namespace kvscope::kernels::cpu {
namespace {

template <typename T>
void widen(const void* data, std::int64_t first, int n, float* out) {
  const T* from = static_cast<const T*>(data) + first;
  for (int i = 0; i < n; ++i) out[i] = to_float(from[i]);
}

template <typename T>
void score_tokens(const MlstmPromptArgs& args, int head) {
  const std::int64_t first = static_cast<std::int64_t>(head) * args.head_dim;
  float x[2 * kMaxHeadDim];
  for (std::int64_t i = 0; i < args.n; ++i) {
    widen<T>(args.k, i * args.k_stride + first, args.head_dim, x);
    widen<T>(args.v, i * args.v_stride + first, args.head_dim, x + args.head_dim);
    args.score[head * args.n + i] =
        score_head(args.scorer, head, args.head_dim, static_cast<std::int32_t>(args.first + i), x);
  }
}

}  // namespace

void mlstm_prompt(const MlstmPromptArgs& args) {
  const std::int64_t d = args.head_dim;
  parallel_for(args.n_kv_heads, args.n * 6 * d * d, [&](std::int64_t head) {
    args.dtype == DType::f32 ? score_tokens<float>(args, static_cast<int>(head))
                             : score_tokens<BFloat16>(args, static_cast<int>(head));
  });
}

}  // namespace kvscope::kernels::cpu
