#include "kernels/project.h"

#include <limits>
#include <stdexcept>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void project(const ProjectArgs& args, Place place) {
  const ArgumentCheck check("project");
  check.dtype(args.dtype);
  check.range("epilogue", static_cast<int>(args.epilogue), 0, static_cast<int>(Epilogue::geglu));
  check.range("dim", args.dim, 1, kMaxProjectDim);
  check.range("n_rows", args.n_rows, 1, std::numeric_limits<std::int32_t>::max());
  if (is_gated(args.epilogue)) check.even("n_rows", args.n_rows);
  check.range("n_tokens", args.n_tokens, 1, kMaxProjectTokens);
  check.pointers({{"weight", args.weight}, {"x", args.x}, {"out", args.out}});
  if (args.bias && !takes_bias(args.epilogue)) {
    throw std::invalid_argument("project: bias is given; expected null for the epilogues swiglu and geglu");
  }
  KVSCOPE_RUN(project, args, place);
}

}  // namespace kvscope::kernels
