#include "kernels/mlstm_step.h"

#include <stdexcept>

#include "kernels/argument_check.h"

namespace kvscope::kernels {

void mlstm_step(const MlstmStepArgs& args, Place place) {
  const ArgumentCheck check("mlstm_step");
  check.range("n_heads", args.n_heads, 1, 65535);
  check.range("d_key", args.d_key, 1, 256);
  check.range("d_value", args.d_value, 1, 256);
  check.pointers({{"c", args.c},
                  {"z", args.z},
                  {"m", args.m},
                  {"k", args.k},
                  {"v", args.v},
                  {"log_i", args.log_i},
                  {"log_f", args.log_f}});
  if (args.q) check.pointer("h", args.h);
  if (place.is_cuda()) throw std::invalid_argument("mlstm_step: on CUDA it is part of admit_step");
  place.backend == Backend::reference ? reference::mlstm_step(args) : cpu::mlstm_step(args);
}

}  // namespace kvscope::kernels
