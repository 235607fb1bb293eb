#include "engine/scorer/token_convolution.h"

#include <algorithm>

#include "engine/model/place.h"
#include "kernels/ring_convolve.h"

namespace kvscope::engine {
namespace {

struct LastTokens final : ScorerMemory {
  at::Tensor
      rows;  // [n_layers, K, M]: token t in row t % K; zeros where no token was, which is what stands before a text
};

at::Tensor rows_of(ScorerMemory& memory, int layer) { return static_cast<LastTokens&>(memory).rows[layer]; }

}  // namespace

TokenConvolution::TokenConvolution(const at::Tensor& conv, at::ScalarType dtype)
    : dtype_(dtype), taps_(conv.transpose(1, 2).contiguous()) {}

double TokenConvolution::memory_bytes() const {
  return static_cast<double>(taps_.numel()) * static_cast<double>(c10::elementSize(dtype_));
}

std::unique_ptr<ScorerMemory> TokenConvolution::new_memory() const {
  auto memory = std::make_unique<LastTokens>();
  memory->rows = at::zeros(taps_.sizes(), taps_.options().dtype(dtype_));
  return memory;
}

at::Tensor TokenConvolution::absorb(int layer, const at::Tensor& hidden, std::int64_t first,
                                    ScorerMemory& memory) const {
  const std::int64_t n = hidden.size(0), kernel = taps_.size(1), units = taps_.size(2);
  const at::Tensor rows = rows_of(memory, layer);
  // By age, the oldest first: that of token `first` - K is left out, its row is the next to be written.
  const at::Tensor before = rows.roll(-(first % kernel), 0).narrow(0, 1, kernel - 1);
  const at::Tensor all = at::cat({before, hidden}, 0);  // [K - 1 + n, M]
  const at::Tensor out = at::conv1d(all.to(at::kFloat).t().unsqueeze(0), taps_[layer].t().unsqueeze(1).contiguous(), {},
                                    /*stride=*/1, /*padding=*/at::IntArrayRef{0}, /*dilation=*/1, /*groups=*/units);
  rows.copy_(all.narrow(0, n - 1, kernel).roll((first + n) % kernel, 0));
  return out.squeeze(0).t().to(dtype_).contiguous();
}

void TokenConvolution::enqueue(int layer, void* hidden, const std::int32_t* position, ScorerMemory& memory,
                               kernels::Place place) const {
  kernels::ring_convolve({.row = hidden,
                          .ring = rows_of(memory, layer).data_ptr(),
                          .taps = taps_[layer].data_ptr<float>(),
                          .out = hidden,
                          .position = position,
                          .n_taps = static_cast<int>(taps_.size(1)),
                          .dim = static_cast<int>(taps_.size(2)),
                          .dtype = kernel_dtype(dtype_)},
                         place);
}

}  // namespace kvscope::engine
