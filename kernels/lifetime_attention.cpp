#include "kernels/lifetime_attention.h"

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void lifetime_attention(const LifetimeAttentionArgs& args, Place place) {
  const ArgumentCheck check("lifetime_attention");
  check.dtype(args.dtype);
  check.heads(args.n_heads, args.n_kv_heads);
  check.soft_cap(args.variant.soft_cap);
  check.range("head_dim", args.head_dim, 1, 256);
  check.range("q_start", args.q_start, 0, kMaxTokens);
  check.range("q_len", args.q_len, 0, kMaxTokens);
  check.range("kv_len", args.kv_len, args.k_position ? 0 : args.q_start + args.q_len, kMaxTokens);
  check.range("kv_token_stride", token_stride(args), args.head_dim, INT64_MAX);
  check.range("kv_head_stride", head_stride(args), args.head_dim, INT64_MAX);
  if (args.q_len == 0) return;
  check.pointers({{"q", args.q}, {"k", args.k}, {"v", args.v}, {"o", args.o}});
  KVSCOPE_RUN(lifetime_attention, args, place);
}

}  // namespace kvscope::kernels
