#pragma once
#include "kernels/operation.h"

namespace kvscope::kernels {

/// out[i] = scale * float32(table[id][i]): the residual stream of a new token. The id is read on the device.
struct EmbedRowArgs {
  const void* table;       // [n_rows, dim] dtype
  const std::int32_t* id;  // one number in [0, n_rows)
  float* out;              // [dim]
  std::int64_t n_rows;
  int dim;
  DType dtype;
  float scale = 1;
};

KVSCOPE_OPERATION_OF_ROWS(embed_row, EmbedRowArgs);

}  // namespace kvscope::kernels
