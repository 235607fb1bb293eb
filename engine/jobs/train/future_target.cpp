#include "engine/jobs/train/future_target.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>

#include "engine/model/place.h"
#include "kernels/future_attention.h"

namespace kvscope::engine {
namespace {

/// Scores [B, HK, G, rows, seen] of queries begin ... -> exp(score - log-sum-exp of those that the query sees).
at::Tensor over_seen(const at::Tensor& scores, const at::Tensor& lifetimes, std::int64_t begin) {
  const at::Tensor query = begin + at::arange(scores.size(3), lifetimes.options()).unsqueeze(1);
  const at::Tensor gone = query >= lifetimes.transpose(0, 1).narrow(2, 0, scores.size(4)).unsqueeze(2).unsqueeze(2);
  const at::Tensor seen = scores.masked_fill(gone, -std::numeric_limits<double>::infinity());
  return (scores - seen.logsumexp(-1, /*keepdim=*/true)).exp();
}

/// Output [B, HK, G, T, D] and mass [B, HK, G, T]: sum over future queries of p, of its square, or the greatest.
struct Masses {
  at::Tensor output, mass;
};

Masses in_chunks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int window, FutureMass kind,
                 double scale, const at::Tensor& lifetimes, std::int64_t chunk) {
  const auto n_batch = q.size(0), n_positions = q.size(1), n_kv_heads = k.size(2), group = q.size(2) / n_kv_heads;
  const auto head_first = [](const at::Tensor& x) { return x.to(at::kFloat).transpose(1, 2).contiguous(); };
  const at::Tensor queries = head_first(q).view({n_batch, n_kv_heads, group, n_positions, q.size(3)});
  const at::Tensor keys = head_first(k).unsqueeze(2), values = head_first(v).unsqueeze(2);  // [B, HK, 1, T, D]
  at::Tensor output = at::empty_like(queries);
  at::Tensor mass = at::zeros({n_batch, n_kv_heads, group, n_positions}, queries.options());
  for (std::int64_t begin = 0; begin < n_positions; begin += chunk) {
    const auto rows = std::min(chunk, n_positions - begin);
    const auto seen = begin + rows;  // keys that some query of the chunk can see
    const at::Tensor rows_q = queries.narrow(3, begin, rows) * scale;
    at::Tensor p = at::matmul(rows_q, keys.narrow(3, 0, seen).transpose(-1, -2));  // [B, HK, G, rows, seen]
    const at::Tensor later = at::ones({rows, rows}, p.options().dtype(at::kBool)).triu_(1);
    p.narrow(-1, begin, rows).masked_fill_(later, -std::numeric_limits<double>::infinity());
    p = lifetimes.defined() ? over_seen(p, lifetimes, begin) : p.softmax(-1);
    output.narrow(3, begin, rows).copy_(at::matmul(p, values.narrow(3, 0, seen)));
    p.tril_(begin - window);  // key t counts for q = begin + row >= t + window
    at::Tensor of_keys = mass.narrow(3, 0, seen);
    if (kind == FutureMass::max) {
      at::maximum_out(of_keys, of_keys, p.amax(-2));
    } else {
      of_keys.add_((kind == FutureMass::rms ? p.square_() : p).sum(-2));
    }
  }
  return {output, mass};
}

/// Whether the library's attention and the project's kernel take these tensors.
bool kernels_take(const at::Tensor& q) {
  const auto dim = q.size(3);
  return q.is_cuda() && q.scalar_type() == at::kBFloat16 && (dim == 64 || dim == 80 || dim == 96 || dim == 128);
}

/// The same on a GPU without anything of the size queries x keys: the library's attention gives each query's log-sum-exp, and the
/// kernel goes through the queries once more, key by key.
Masses by_kernels(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, int window,
                  FutureMass kind, double scale) {
  const at::Tensor q = queries.contiguous(), k = keys.contiguous(), v = values.contiguous();
  const auto n_batch = q.size(0), n_positions = q.size(1), n_heads = q.size(2), n_kv_heads = k.size(2);
  const auto attended = at::_flash_attention_forward(q, k, v, /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, n_positions,
                                                     n_positions, /*dropout_p=*/0, /*is_causal=*/true,
                                                     /*return_debug_mask=*/false, scale);
  const at::Tensor lse = std::get<1>(attended).contiguous();  // [B, H, T]
  const bool is_sum = kind == FutureMass::mean || kind == FutureMass::sum;
  at::Tensor masses = at::zeros({is_sum ? 1 : 3, n_batch, n_heads, n_positions}, lse.options());
  const kernels::Place place = ops::place_of(q.device());
  const std::int64_t of_scores = n_heads * n_positions, of_q = q.stride(0), of_k = k.stride(0);
  for (std::int64_t b = 0; b < n_batch; ++b) {
    float* sums = masses.data_ptr<float>() + b * of_scores;
    kernels::future_attention({.q = q.data_ptr<at::BFloat16>() + b * of_q,
                               .k = k.data_ptr<at::BFloat16>() + b * of_k,
                               .lse = lse.data_ptr<float>() + b * of_scores,
                               .mass = sums,
                               .square = is_sum ? nullptr : sums + n_batch * of_scores,
                               .most = is_sum ? nullptr : sums + 2 * n_batch * of_scores,
                               .mass_stride = n_positions,
                               .q_start = 0,
                               .q_len = n_positions,
                               .kv_len = n_positions,
                               .n_heads = static_cast<int>(n_heads),
                               .n_kv_heads = static_cast<int>(n_kv_heads),
                               .head_dim = static_cast<int>(q.size(3)),
                               .window = window,
                               .look_ahead = 0,
                               .scale = static_cast<float>(scale),
                               .dtype = kernels::DType::bf16},
                              place);
  }
  const at::Tensor wanted = masses[is_sum ? 0 : kind == FutureMass::rms ? 1 : 2];
  const at::Tensor output = std::get<0>(attended).transpose(1, 2);  // [B, H, T, D]
  return {output.unflatten(1, {n_kv_heads, n_heads / n_kv_heads}),
          wanted.view({n_batch, n_kv_heads, n_heads / n_kv_heads, n_positions})};
}

}  // namespace

std::int64_t usual_chunk(const at::Tensor& q) {
  constexpr std::int64_t kCpu = 256, kNumbers = std::int64_t{1} << 26;
  return q.is_cuda() ? std::max(kCpu, kNumbers / (q.size(0) * q.size(1) * q.size(2))) : kCpu;
}

TeacherAttention teacher_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int window,
                                   FutureMass kind, double scale, const at::Tensor& weight, const at::Tensor& lifetimes,
                                   std::int64_t chunk) {
  const c10::NoGradGuard no_grad;
  const auto n_batch = q.size(0), n_positions = q.size(1), n_heads = q.size(2), dim = q.size(3);
  auto [output, mass] = chunk == 0 && !lifetimes.defined() && kernels_take(q)
                            ? by_kernels(q, k, v, window, kind, scale)
                            : in_chunks(q, k, v, window, kind, scale, lifetimes, chunk == 0 ? usual_chunk(q) : chunk);
  const at::Tensor position = at::arange(n_positions, mass.options());
  const at::Tensor n_future = (static_cast<double>(n_positions - window) - position).clamp_min(1);
  if (kind == FutureMass::mean || kind == FutureMass::rms) mass = mass / n_future;
  if (kind == FutureMass::rms) mass = mass.sqrt();
  if (weight.defined()) mass = mass * weight;
  const at::Tensor target = (mass + 1e-6).log().amax(2);  // [B, HK, T]
  return {output.flatten(1, 2).transpose(1, 2).reshape({n_batch, n_positions, n_heads * dim}),
          target.transpose(0, 1).contiguous()};
}

at::Tensor value_weight(const at::Tensor& v, TargetWeight weight, const at::Tensor& output_projection) {
  if (weight == TargetWeight::mass) return {};
  const c10::NoGradGuard no_grad;
  const at::Tensor values = v.to(at::kFloat).permute({0, 2, 1, 3});  // [B, HK, T, D]
  if (weight == TargetWeight::value) return values.norm(2, -1).unsqueeze(2);
  const auto n_kv_heads = v.size(2), dim = v.size(3), group = output_projection.size(1) / (n_kv_heads * dim);
  const at::Tensor w = output_projection.to(at::kFloat).view({-1, n_kv_heads, group, dim}).permute({1, 2, 0, 3});
  // |W v|^2 = v (W^T W) v: the product with W itself would be as large as the hidden states of every head.
  const at::Tensor gram = at::matmul(w.transpose(-1, -2), w);  // [HK, G, D, D]
  const at::Tensor of_head = values.unsqueeze(2);              // [B, HK, 1, T, D]
  return (at::matmul(of_head, gram) * of_head).sum(-1).clamp_min(0).sqrt();
}

}  // namespace kvscope::engine
