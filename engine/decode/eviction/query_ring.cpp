#include "engine/decode/eviction/query_ring.h"

#include <algorithm>

#include "engine/decode/eviction/sequence_state.h"
#include "kernels/ring_store.h"

namespace kvscope::engine {

QueryRing::QueryRing(const SequenceState& state, int n_rows)
    : n_heads_(state.model.config().n_heads), head_dim_(state.model.config().head_dim) {
  const Weights& weights = state.model.weights();
  rows_ = at::zeros({state.model.config().n_layers, n_rows, n_heads_ * head_dim_},
                    at::TensorOptions().device(weights.device).dtype(weights.dtype));
}

void QueryRing::store(int layer, const at::Tensor& q, std::int64_t first) {
  const std::int64_t n = q.size(0), kept = std::min(rows_.size(1), n), from = n - kept;
  const at::Tensor row =
      at::arange(first + from, first + n, rows_.options().dtype(at::kLong)).remainder_(rows_.size(1));
  rows_[layer].index_copy_(0, row, q.narrow(0, from, kept).reshape({kept, -1}));
}

void QueryRing::enqueue(const LayerStep& step) {
  const at::Tensor ring = rows_[step.layer];
  kernels::ring_store({.row = step.q,
                       .ring = ring.data_ptr(),
                       .position = step.position,
                       .row_bytes = ring.stride(0) * static_cast<std::int64_t>(ring.element_size()),
                       .n_rows = static_cast<int>(ring.size(0))},
                      step.place);
}

QueryRing::Queries QueryRing::newest(int layer, std::int64_t n, std::int64_t n_tokens) const {
  n = std::min({n, rows_.size(1), n_tokens});
  const at::Tensor position = at::arange(n_tokens - n, n_tokens, rows_.options().dtype(at::kLong));
  return {rows_[layer].index_select(0, position.remainder(rows_.size(1))).view({n, n_heads_, head_dim_}), position};
}

}  // namespace kvscope::engine
