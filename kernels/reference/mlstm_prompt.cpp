#include "kernels/mlstm_prompt.h"

#include <vector>

#include "kernels/reference/element.h"
#include "kernels/reference/score_head.h"

namespace kvscope::kernels::reference {

void mlstm_prompt(const MlstmPromptArgs& args) {
  for (int head = 0; head < args.n_kv_heads; ++head) {
    for (std::int64_t i = 0; i < args.n; ++i) {
      std::vector<double> x;
      const std::int64_t first = static_cast<std::int64_t>(head) * args.head_dim;
      for (int j = 0; j < args.head_dim; ++j) x.push_back(load(args.k, i * args.k_stride + first + j, args.dtype));
      for (int j = 0; j < args.head_dim; ++j) x.push_back(load(args.v, i * args.v_stride + first + j, args.dtype));
      args.score[head * args.n + i] =
          static_cast<float>(score_head(args.scorer, head, args.head_dim, args.first + i, x));
    }
  }
}

}  // namespace kvscope::kernels::reference
