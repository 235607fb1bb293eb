#include "kernels/future_attention.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void future_attention(const FutureAttentionArgs& args, Place place) {
  const ArgumentCheck check("future_attention");
  check.dtype(args.dtype);
  check.heads(args.n_heads, args.n_kv_heads);
  check.soft_cap(args.soft_cap);
  check.range("head_dim", args.head_dim, 1, 256);
  check.range("q_start", args.q_start, 0, kMaxTokens);
  check.range("q_len", args.q_len, 0, kMaxTokens);
  check.range("kv_len", args.kv_len, 0, kMaxTokens);
  check.range("mass_stride", args.mass_stride, args.kv_len, std::numeric_limits<std::int64_t>::max());
  check.range("window", args.window, 0, kMaxTokens);
  check.range("look_ahead", args.look_ahead, 0, kMaxTokens);
  if (args.q_len == 0 || args.kv_len == 0) return;
  check.pointers({{"q", args.q}, {"k", args.k}, {"lse", args.lse}, {"mass", args.mass}});
  if (args.square != nullptr || args.most != nullptr) check.pointers({{"square", args.square}, {"most", args.most}});
  KVSCOPE_RUN(future_attention, args, place);
}

}  // namespace kvscope::kernels
