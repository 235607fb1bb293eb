#include "kernels/append.h"

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void append(const AppendArgs& args, Place place) {
  const ArgumentCheck check("append");
  check.pools(args.cache);
  check.range("n_tokens", args.n_tokens, 0, kMaxTokens);
  if (args.n_tokens == 0) return;
  check.pointers({{"k", args.k}, {"v", args.v}, {"slot", args.slot}, {"position", args.position}});
  KVSCOPE_RUN(append, args, place);
}

}  // namespace kvscope::kernels
