#include "kernels/embed_row.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void embed_row(const EmbedRowArgs& args, Place place) {
  const ArgumentCheck check("embed_row");
  check.dtype(args.dtype);
  check.range("dim", args.dim, 1, 65536);
  check.range("n_rows", args.n_rows, 1, std::numeric_limits<std::int32_t>::max());
  check.pointers({{"table", args.table}, {"id", args.id}, {"out", args.out}});
  KVSCOPE_RUN(embed_row, args, place);
}

}  // namespace kvscope::kernels
