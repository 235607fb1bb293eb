#include "engine/model/ops.h"

#include <algorithm>
#include <optional>

#include "engine/model/weights.h"
#include "kernels/append.h"
#include "kernels/future_attention.h"
#include "kernels/glu.h"
#include "kernels/lifetime_attention.h"
#include "kernels/project.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"

namespace kvscope::engine::ops {
namespace {

void check(const at::Tensor& tensor, const char* what) {
  TORCH_CHECK(tensor.is_contiguous(), what, " is not contiguous");
}

/// A kernel reads raw pointers: a tensor on the wrong device would be a fault, not an error.
void check(const at::Tensor& tensor, const at::Tensor& beside, const char* what) {
  check(tensor, what);
  TORCH_CHECK(tensor.device() == beside.device(), what, " is on ", tensor.device(), ", not on ", beside.device());
}

template <typename T>
T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<T>() : nullptr;
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, float eps, float weight_offset) {
  check(x, "x");
  check(weight, x, "weight");
  at::Tensor out = at::empty_like(x);
  const std::int64_t dim = x.size(-1);
  kernels::rms_norm({.x = x.data_ptr(),
                     .weight = weight.data_ptr(),
                     .out = out.data_ptr(),
                     .n_rows = x.numel() / dim,
                     .x_stride = dim,
                     .dim = static_cast<int>(dim),
                     .eps = eps,
                     .weight_offset = weight_offset,
                     .dtype = kernel_dtype(x.scalar_type())},
                    place_of(x.device()));
  return out;
}

kernels::GluActivation glu_activation(MlpActivation activation) {
  using kernels::GluActivation;
  return activation == MlpActivation::silu        ? GluActivation::silu
         : activation == MlpActivation::gelu_tanh ? GluActivation::gelu_tanh
                                                  : GluActivation::clamped;
}

at::Tensor glu(const at::Tensor& gate_up, MlpActivation activation) {
  check(gate_up, "gate_up");
  const std::int64_t n = gate_up.size(0), dim = gate_up.size(1) / 2;
  at::Tensor out = at::empty({n, dim}, gate_up.options());
  kernels::glu({.gate_up = gate_up.data_ptr(),
                .out = out.data_ptr(),
                .n_rows = n,
                .dim = static_cast<int>(dim),
                .activation = glu_activation(activation),
                .dtype = kernel_dtype(gate_up.scalar_type())},
               place_of(gate_up.device()));
  return out;
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  constexpr std::int64_t kMostRows = 128;
  const std::int64_t n = x.size(0), element = x.element_size();
  if (x.is_cuda() || n > kMostRows || !x.is_contiguous() || !weight.is_contiguous()) {
    return at::linear(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
  }
  at::Tensor out = at::empty({n, weight.size(0)}, x.options());
  for (std::int64_t first = 0; first < n; first += kernels::kMaxProjectTokens) {
    kernels::project({.weight = weight.data_ptr(),
                      .bias = bias.defined() ? bias.data_ptr() : nullptr,
                      .x = static_cast<const char*>(x.data_ptr()) + first * x.size(1) * element,
                      .out = static_cast<char*>(out.data_ptr()) + first * out.size(1) * element,
                      .n_rows = weight.size(0),
                      .dim = static_cast<int>(weight.size(1)),
                      .n_tokens = static_cast<int>(std::min<std::int64_t>(kernels::kMaxProjectTokens, n - first)),
                      .epilogue = kernels::Epilogue::store,
                      .dtype = kernel_dtype(x.scalar_type())},
                     {});
  }
  return out;
}

void rope_(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& inv_freq, float attention_scaling) {
  check(x, "x");
  check(positions, x, "positions");
  check(inv_freq, x, "inv_freq");
  kernels::rope({.x = x.data_ptr(),
                 .positions = positions.data_ptr<std::int32_t>(),
                 .inv_freq = inv_freq.data_ptr<float>(),
                 .n_tokens = x.size(0),
                 .n_heads = static_cast<int>(x.size(1)),
                 .head_dim = static_cast<int>(x.size(2)),
                 .attention_scaling = attention_scaling,
                 .dtype = kernel_dtype(x.scalar_type())},
                place_of(x.device()));
}

at::Tensor lifetime_attention(const at::Tensor& q, const KeysInSight& keys, std::int64_t q_start,
                              const AttentionScores& scores, const at::Tensor& lse) {
  const auto& [k, v, evict_at, position] = keys;
  check(q, "q");
  TORCH_CHECK(k.device() == q.device() && v.device() == q.device(), "keys and queries are on different devices");
  TORCH_CHECK(k.strides() == v.strides() && k.stride(2) == 1, "keys and values are not laid out alike");
  TORCH_CHECK(position.defined() || k.size(1) >= q_start + q.size(0), "fewer keys than queries");
  const std::int64_t kv_len = position.defined() ? k.size(1) : q_start + q.size(0);
  for (const at::Tensor& facts : {position, evict_at}) {
    if (!facts.defined()) continue;
    check(facts, q, "facts of keys");
    TORCH_CHECK(facts.size(0) == k.size(0) && facts.size(1) == kv_len, "facts of keys are not [n_kv_heads, n]");
  }
  if (scores.sink.defined()) check(scores.sink, q, "sink");
  at::Tensor o = at::empty_like(q);
  kernels::lifetime_attention({.q = q.data_ptr(),
                               .k = k.data_ptr(),
                               .v = v.data_ptr(),
                               .evict_at = data_or_null<std::int32_t>(evict_at),
                               .o = o.data_ptr(),
                               .lse = data_or_null<float>(lse),
                               .q_start = q_start,
                               .q_len = q.size(0),
                               .kv_len = kv_len,
                               .n_heads = static_cast<int>(q.size(1)),
                               .n_kv_heads = static_cast<int>(k.size(0)),
                               .head_dim = static_cast<int>(q.size(2)),
                               .scale = static_cast<float>(scores.scale),
                               .dtype = kernel_dtype(q.scalar_type()),
                               .k_position = data_or_null<std::int32_t>(position),
                               .kv_token_stride = k.stride(1),
                               .kv_head_stride = k.stride(0),
                               .variant = scores.variant()},
                              place_of(q.device()));
  return o;
}

void future_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& lse, const FutureMasses& masses,
                      std::int64_t q_start, const AttentionScores& scores, int window, std::int64_t look_ahead) {
  check(q, "q");
  check(k, q, "k");
  check(lse, q, "lse");
  const at::Tensor& mass = masses.sum;
  check(mass, q, "mass");
  for (const at::Tensor& other : {masses.square, masses.most}) {
    if (other.defined()) check(other, q, "squares and maxima");
    TORCH_CHECK(!other.defined() || other.sizes() == mass.sizes(), "squares and maxima of another shape than the sums");
  }
  const std::int64_t kv_len = q_start + q.size(0);
  TORCH_CHECK(k.size(0) >= kv_len && mass.size(1) >= kv_len, "fewer keys than queries");
  kernels::future_attention({.q = q.data_ptr(),
                             .k = k.data_ptr(),
                             .lse = lse.data_ptr<float>(),
                             .mass = mass.data_ptr<float>(),
                             .square = data_or_null<float>(masses.square),
                             .most = data_or_null<float>(masses.most),
                             .mass_stride = mass.size(1),
                             .q_start = q_start,
                             .q_len = q.size(0),
                             .kv_len = kv_len,
                             .n_heads = static_cast<int>(q.size(1)),
                             .n_kv_heads = static_cast<int>(k.size(1)),
                             .head_dim = static_cast<int>(q.size(2)),
                             .window = window,
                             .look_ahead = look_ahead,
                             .scale = static_cast<float>(scores.scale),
                             .dtype = kernel_dtype(q.scalar_type()),
                             .soft_cap = static_cast<float>(scores.soft_cap)},
                            place_of(q.device()));
}

void append_many(const kernels::SlotCacheView& cache, const at::Tensor& k, const at::Tensor& v, const at::Tensor& slot,
                 const at::Tensor& position) {
  check(k, "k");
  check(v, k, "v");
  check(slot, k, "slot");
  check(position, k, "position");
  kernels::append({.cache = cache,
                   .k = k.data_ptr(),
                   .v = v.data_ptr(),
                   .slot = slot.data_ptr<std::int32_t>(),
                   .position = position.data_ptr<std::int32_t>(),
                   .n_tokens = k.size(0)},
                  place_of(k.device()));
}

}  // namespace kvscope::engine::ops
