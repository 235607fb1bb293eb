#include "kernels/embed_row.h"

#include "kernels/cpu/vector.h"

namespace kvscope::kernels::cpu {

void embed_row(const EmbedRowArgs& args) {
  const std::int64_t first = static_cast<std::int64_t>(*args.id) * args.dim;
  copy_floats(args.table, first, args.dim, args.dtype, args.out);
  if (args.scale != 1) scale(args.out, args.scale, args.dim);
}

}  // namespace kvscope::kernels::cpu
