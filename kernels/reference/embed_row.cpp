#include "kernels/embed_row.h"

#include "kernels/reference/element.h"

namespace kvscope::kernels::reference {

void embed_row(const EmbedRowArgs& args) {
  const std::int64_t first = static_cast<std::int64_t>(*args.id) * args.dim;
  for (int i = 0; i < args.dim; ++i)
    args.out[i] = args.scale * static_cast<float>(load(args.table, first + i, args.dtype));
}

}  // namespace kvscope::kernels::reference
