// Dense attention over a cache: the project's kernel on the rows as they lie there, and the library's in its place.
#include "engine/decode/dense_attention.h"

#include <cmath>

#include "engine/decode/eviction/slot_cache.h"
#include "engine/model/device.h"
#include "engine/model/ops.h"
#include "kernels/device.h"
#include "tests/support/skip.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using engine::DenseBackend;

struct Problem {
  at::Tensor q, k, v;  // [n, n_heads, head_dim] and [n_kv_heads, first + n, head_dim], float32
};

Problem some_problem(std::int64_t n, std::int64_t first, std::int64_t n_heads, std::int64_t n_kv_heads,
                     std::int64_t head_dim) {
  const auto numbers = [](at::IntArrayRef shape, double step) {  // the same every time, of unit size
    const at::Tensor index = at::arange(c10::multiply_integers(shape), at::kDouble);
    return (at::sin(index * index * step) * 1.4).to(at::kFloat).view(shape);
  };
  return {numbers({n, n_heads, head_dim}, 0.31), numbers({n_kv_heads, first + n, head_dim}, 0.57),
          numbers({n_kv_heads, first + n, head_dim}, 0.79)};
}

double max_error(const at::Tensor& a, const at::Tensor& b) {
  return (a.cpu().to(at::kDouble) - b.cpu().to(at::kDouble)).abs().max().item<double>();
}

constexpr double kScale = 0.125;  // of heads of 64

at::Tensor token_major(const at::Tensor& rows) { return rows.transpose(0, 1).contiguous(); }

TEST_CASE("attention over the rows of a cache is attention over the text", "[engine][attention]") {
  const std::int64_t first = GENERATE(0, 1, 90), n = GENERATE(1, 70);
  const Problem p = some_problem(n, first, 6, 2, 64);
  CHECK(engine::choose_dense_backend(p.q, 2) == DenseBackend::own);
  const at::Tensor found = engine::dense_attention(DenseBackend::own, p.q, p.k, p.v, first, kScale);
  const at::Tensor expected = engine::ops::lifetime_attention(
      p.q, {token_major(p.k).transpose(0, 1), token_major(p.v).transpose(0, 1)}, first, kScale);
  CHECK(at::equal(found, expected));  // the same keys in the same tiles
}

TEST_CASE("the rows of a cache are a view where pages follow each other and a copy where not", "[engine][cache]") {
  constexpr int kHeads = 3, kTokens = 50, kDim = 64;
  const Problem p = some_problem(kTokens, 0, kHeads, kHeads, kDim);
  const at::Tensor position = at::arange(kTokens, at::kInt), slot = position.expand({kHeads, kTokens}).contiguous();
  for (const bool at_once : {true, false}) {
    engine::SlotCache cache(2, kHeads, kDim, 64, at::kFloat, c10::kCPU);
    if (at_once) {
      cache.reserve(64);
    } else {
      for (const int n : {10, 30, kTokens}) cache.fill_slots(n);  // the heads' pages alternate
    }
    cache.fill_slots(kTokens);
    engine::ops::append_many(cache.view(1), token_major(p.k), token_major(p.v), slot, position);
    const engine::SlotCache::Rows rows = cache.rows(1, kTokens);
    CHECK(at::equal(rows.k, p.k));
    CHECK(at::equal(rows.v, p.v));
    CHECK((rows.k.storage().data() == cache.view(1).k_pool) == at_once);
    CHECK(cache.n_slots(0, 2) == kTokens);
  }
}

/// Error of a library's attention against float32 is at most twice that of the project's kernel (FlashAttention's rule)
/// plus two roundings of bfloat16 at values near 1, which the merge of two parts adds.
void check_library(DenseBackend backend, std::int64_t n, std::int64_t first, std::int64_t group,
                   std::int64_t head_dim) {
  const Problem p = some_problem(n, first, 2 * group, 2, head_dim);
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const auto there = [](const at::Tensor& x) { return x.to(c10::Device(c10::kCUDA, 0), at::kBFloat16); };
  const at::Tensor q = there(p.q), k = there(p.k), v = there(p.v);
  const at::Tensor lse = at::empty({2 * group, n}, q.options().dtype(at::kFloat)), exact = at::empty_like(lse);
  const at::Tensor expected = engine::dense_attention(DenseBackend::own, q.to(at::kFloat), k.to(at::kFloat),
                                                      v.to(at::kFloat), first, scale, /*window=*/0, exact);
  const double own = max_error(engine::dense_attention(DenseBackend::own, q, k, v, first, scale), expected);
  const double library =
      max_error(engine::dense_attention(backend, q, k, v, first, scale, /*window=*/0, lse), expected);
  CHECK(library <= 2 * own + 2.0 / 256);
  CHECK(max_error(lse, exact) < 1e-2);
}

TEST_CASE("the library's dense attention is the project's own, with a past and without", "[engine][attention][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  engine::open_cuda(0);
  const auto [n, group, head_dim] = GENERATE(table<int, int, int>({{2048, 4, 128},
                                                                   {1100, 7, 128},
                                                                   {300, 1, 64},
                                                                   {1500, 2, 64},
                                                                   {400, 4, 80},
                                                                   {1200, 2, 192},
                                                                   {1200, 4, 256},
                                                                   {300, 4, 256}}));
  const int first = GENERATE(0, 1000);
  CAPTURE(n, first, group, head_dim);
  const at::Tensor like =
      at::zeros({n, 2 * group, head_dim}, at::TensorOptions().device(c10::Device(c10::kCUDA, 0)).dtype(at::kBFloat16));
  const DenseBackend chosen = engine::choose_dense_backend(like, 2);
  INFO("backend: " << engine::name_of(chosen));
  if (chosen != DenseBackend::own) check_library(chosen, n, first, group, head_dim);
  CHECK((head_dim != 128 || chosen != DenseBackend::own));  // LibTorch has at least FlashAttention for it
}

}  // namespace
}  // namespace kvscope
