#include "kernels/decode_attention.h"

#include "kernels/argument_check.h"
#include "kernels/cuda/decode_split.h"

namespace kvscope::kernels {
namespace {

void check_args(const DecodeAttentionArgs& args) {
  const ArgumentCheck check("decode_attention");
  check.pools(args.cache);
  check.heads(args.n_heads, args.cache.n_kv_heads);
  check.soft_cap(args.variant.soft_cap);
  check.pointers({{"cache.n_slots", args.cache.n_slots}, {"q", args.q}, {"o", args.o}});
}

}  // namespace

std::int64_t decode_attention_scratch_floats(int n_heads, const SlotCacheView& cache) {
  const int n_splits = decode_splits(cache.max_pages * cache.page_size);
  if (n_splits == 1) return 0;
  return decode_counter_floats(n_heads) + static_cast<std::int64_t>(n_heads) * n_splits * (cache.head_dim + 2);
}

KVSCOPE_RUN_ROWS(decode_attention, DecodeAttentionArgs);

}  // namespace kvscope::kernels
