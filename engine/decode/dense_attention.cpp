#include "engine/decode/dense_attention.h"

#include <cmath>
#include <exception>
#include <map>
#include <tuple>

#include "engine/model/ops.h"

namespace kvscope::engine {
namespace {

/// cuDNN plans anew for every pair of lengths, tens of milliseconds each: not for short chunks.
constexpr std::int64_t kFewestForCudnn = 1024;
/// Below this a launch costs more than the attention.
constexpr std::int64_t kFewestForLibrary = 128;

/// Result of one library call. o: [n, n_heads, head_dim]; lse: [n_heads, n] float32.
struct AttentionPart {
  at::Tensor o, lse;
};

/// [n, n_heads, d] as the libraries want it, [1, n_heads, n, d], without a copy.
at::Tensor as_batch_of_queries(const at::Tensor& q) { return q.transpose(0, 1).unsqueeze(0); }

/// [n_kv_heads, n, d] -> [1, n_heads, n, d], a copy.
at::Tensor for_every_head(const at::Tensor& k, std::int64_t n_heads) {
  const std::int64_t n_kv_heads = k.size(0), n = k.size(1), d = k.size(2);
  return k.unsqueeze(1).expand({n_kv_heads, n_heads / n_kv_heads, n, d}).reshape({1, n_heads, n, d});
}

AttentionPart call_library(DenseBackend backend, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double scale, bool causal) {
  const at::Tensor queries = as_batch_of_queries(q);
  const bool ungrouped = backend == DenseBackend::cudnn_ungrouped;
  const at::Tensor keys = ungrouped ? for_every_head(k, q.size(1)) : k.unsqueeze(0),
                   values = ungrouped ? for_every_head(v, q.size(1)) : v.unsqueeze(0);
  at::Tensor o, lse;
  if (backend != DenseBackend::flash) {
    const auto result = at::_scaled_dot_product_cudnn_attention(queries, keys, values, /*attn_bias=*/std::nullopt,
                                                                /*compute_log_sumexp=*/true, /*dropout_p=*/0.0, causal,
                                                                /*return_debug_mask=*/false, scale);
    o = std::get<0>(result);
    lse = std::get<1>(result);
  } else {
    const auto result = at::_scaled_dot_product_flash_attention(queries, keys, values, /*dropout_p=*/0.0, causal,
                                                                /*return_debug_mask=*/false, scale);
    o = std::get<0>(result);
    lse = std::get<1>(result);
  }
  return {o.squeeze(0).transpose(0, 1), lse.reshape({q.size(1), q.size(0)})};
}

/// The equation of the header; both parts are in bfloat16, the weights in float32.
at::Tensor merge(AttentionPart own, const AttentionPart& past) {
  const at::Tensor weight = (past.lse - own.lse).sigmoid_().t().unsqueeze(-1);  // [n, n_heads, 1]
  own.o.mul_(1 - weight);
  return own.o.addcmul_(past.o, weight);
}

at::Tensor attend_by_library(DenseBackend backend, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             std::int64_t first, double scale, const at::Tensor& lse = {}) {
  const std::int64_t n = q.size(0);
  const AttentionPart own =
      call_library(backend, q, k.narrow(1, first, n), v.narrow(1, first, n), scale, /*causal=*/true);
  if (first == 0) {
    if (lse.defined()) lse.copy_(own.lse);
    return own.o.contiguous();
  }
  const AttentionPart past =
      call_library(backend, q, k.narrow(1, 0, first), v.narrow(1, 0, first), scale, /*causal=*/false);
  if (lse.defined()) lse.copy_(at::logaddexp(own.lse, past.lse));
  return merge(own, past).contiguous();
}

/// Whether the library's attention is that of the project's kernel on a small problem with a past, heads like q's.
bool agrees(DenseBackend backend, const at::Tensor& q, std::int64_t n_kv_heads) {
  constexpr std::int64_t kQueries = 192, kPast = 128;
  const std::int64_t n_heads = q.size(1), d = q.size(2);
  const auto numbers = [&](at::IntArrayRef shape, double step) {  // of unit size, the same every time
    const std::int64_t n = c10::multiply_integers(shape);
    const at::Tensor index = at::arange(n, q.options().dtype(at::kDouble));
    return (at::sin(index * index * step) * 1.4).to(q.scalar_type()).view(shape);
  };
  const at::Tensor small = numbers({kQueries, n_heads, d}, 0.37), k = numbers({n_kv_heads, kQueries + kPast, d}, 0.61),
                   v = numbers({n_kv_heads, kQueries + kPast, d}, 0.83);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  try {
    const at::Tensor lse = at::empty({n_heads, kQueries}, q.options().dtype(at::kFloat)), own_lse = at::empty_like(lse);
    const at::Tensor found = attend_by_library(backend, small, k, v, kPast, scale, lse);
    const at::Tensor expected = ops::lifetime_attention(small, {k, v}, kPast, scale, own_lse);
    // The products are exact in both; the sums are float32.
    if ((lse - own_lse).abs().max().item<float>() > 1e-2f) return false;
    // Four roundings of bfloat16 (two parts, two of the merge) at values of at most 1.4; another mask or another head
    // would be off by tenths.
    return (found.to(at::kFloat) - expected.to(at::kFloat)).abs().max().item<float>() < 1.4f * 4 / 256;
  } catch (const std::exception&) {
    return false;  // not built in, or not for these shapes
  }
}

bool usable(DenseBackend backend, const at::Tensor& q, std::int64_t n_kv_heads) {
  using Key = std::tuple<DenseBackend, int, std::int64_t, std::int64_t, std::int64_t>;
  static std::map<Key, bool> known;  // one thread computes (engine_server.h)
  const Key key(backend, q.device().index(), q.size(1), n_kv_heads, q.size(2));
  if (const auto found = known.find(key); found != known.end()) return found->second;
  return known[key] = agrees(backend, q, n_kv_heads);
}

}  // namespace

const char* name_of(DenseBackend backend) {
  switch (backend) {
    case DenseBackend::own:
      return "own";
    case DenseBackend::flash:
      return "flash";
    case DenseBackend::cudnn:
      return "cudnn";
    case DenseBackend::cudnn_ungrouped:
      return "cudnn, ungrouped";
  }
  return "";
}

DenseBackend choose_dense_backend(const at::Tensor& q, std::int64_t n_kv_heads) {
  if (!q.is_cuda() || q.scalar_type() != at::kBFloat16 || q.size(0) < kFewestForLibrary) return DenseBackend::own;
  if (q.size(0) >= kFewestForCudnn) {
    for (const DenseBackend cudnn : {DenseBackend::cudnn, DenseBackend::cudnn_ungrouped}) {
      if (usable(cudnn, q, n_kv_heads)) return cudnn;
    }
  }
  return usable(DenseBackend::flash, q, n_kv_heads) ? DenseBackend::flash : DenseBackend::own;
}

at::Tensor dense_attention(DenseBackend backend, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           std::int64_t first, const AttentionScores& scores, int window, const at::Tensor& lse) {
  if (window > 0) {
    const std::int64_t n = first + q.size(0);
    return ops::lifetime_attention(q, in_window(k.narrow(1, 0, n), v.narrow(1, 0, n), window), first, scores, lse);
  }
  if (backend == DenseBackend::own || !scores.is_plain()) return ops::lifetime_attention(q, {k, v}, first, scores, lse);
  return attend_by_library(backend, q, k, v, first, scores.scale, lse);
}

ops::KeysInSight in_window(const at::Tensor& k, const at::Tensor& v, int window) {
  if (window == 0) return {k, v};
  const at::Tensor leaves_at = at::arange(window, window + k.size(1), k.options().dtype(at::kInt));
  return {k, v, leaves_at.expand({k.size(0), -1}).contiguous()};
}

}  // namespace kvscope::engine
