#include "kernels/embed_row.h"

#include <limits>

#include "kernels/argument_check.h"

namespace kvscope::kernels {
namespace {

void check_args(const EmbedRowArgs& args) {
  const ArgumentCheck check("embed_row");
  check.dtype(args.dtype);
  check.range("dim", args.dim, 1, 65536);
  check.range("n_rows", args.n_rows, 1, std::numeric_limits<std::int32_t>::max());
  check.pointers({{"table", args.table}, {"id", args.id}, {"out", args.out}});
}

}  // namespace

KVSCOPE_RUN_ROWS(embed_row, EmbedRowArgs);

}  // namespace kvscope::kernels
