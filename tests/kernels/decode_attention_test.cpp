#include "kernels/decode_attention.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/naive_attention.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

struct Problem {
  HostCache cache;
  std::vector<float> q;  // [n_heads, head_dim]
  int n_heads;
  float scale() const { return 1 / std::sqrt(static_cast<float>(cache.head_dim)); }
};

/// Every `free_every`-th slot is free and stays NaN.
Problem random_problem(const std::vector<int>& n_slots, int group_size, int head_dim, DType dtype, int free_every = 5,
                       int max_pages = 0) {
  const int most = *std::max_element(n_slots.begin(), n_slots.end());
  Problem p = {empty_cache(n_slots, head_dim, std::max(max_pages, most / 16 + 1), dtype, 21)};
  p.n_heads = static_cast<int>(n_slots.size()) * group_size;
  p.q = rounded(random_normal(static_cast<std::size_t>(p.n_heads) * head_dim, 22, 2), dtype);
  fill_slots(p.cache, free_every, 23);
  return p;
}

struct Result {
  std::vector<float> o, lse;
};

/// `dtype` may be f32 for a bf16 problem: the same numbers, result not rounded.
Result run(Backend backend, const Problem& p, DType dtype, bool with_scratch = true) {
  Memory memory(backend);
  HostCache cache = p.cache;
  cache.dtype = dtype;
  const SlotCacheView view = upload(cache, memory);
  auto* o = memory.put(poison(p.q.size(), dtype));
  auto* lse = memory.put(poison(p.n_heads));
  const std::int64_t n_scratch = decode_attention_scratch_floats(p.n_heads, view);
  const DecodeAttentionArgs args = {
      .cache = view,
      .q = memory.put(pack(p.q, dtype)),
      .o = o,
      .lse = lse,
      .n_heads = p.n_heads,
      .scale = p.scale(),
      .scratch = with_scratch && n_scratch > 0 ? memory.put(std::vector<float>(n_scratch, 0.0f)) : nullptr};
  decode_attention(args, {backend});
  return {unpack(memory.get(o), dtype), memory.get(lse)};
}

Result naive(const Problem& p, DType dtype) {
  Result result;
  const HostCache& cache = p.cache;
  for (int head = 0; head < p.n_heads; ++head) {
    const int kv_head = head / (p.n_heads / cache.n_kv_heads);
    std::vector<std::size_t> rows;
    for (int slot = 0; slot < cache.n_slots[kv_head]; ++slot) {
      if (cache.slot_position[kv_head * cache.capacity() + slot] >= 0) rows.push_back(cache.row(kv_head, slot));
    }
    const NaiveRow row = naive_attention(
        p.q.data() + head * cache.head_dim, static_cast<int>(rows.size()), cache.head_dim, p.scale(), dtype,
        [&](int i) { return cache.k_pool.data() + rows[i]; }, [&](int i) { return cache.v_pool.data() + rows[i]; });
    result.o.insert(result.o.end(), row.o.begin(), row.o.end());
    result.lse.push_back(row.lse);
  }
  return result;
}

void check_problem(Backend backend, const Problem& p, bool with_scratch = true) {
  const DType dtype = p.cache.dtype;
  const Result expected = run(Backend::reference, p, DType::f32);
  const Result plain = naive(p, dtype);
  const Result found = run(backend, p, dtype, with_scratch);
  CHECK(max_error(found.o, expected.o) <= allowed_error(max_error(plain.o, expected.o), expected.o, dtype));
  CHECK(max_error(found.lse, expected.lse) <=
        allowed_error(max_error(plain.lse, expected.lse), expected.lse, DType::f32));
}

void check_shapes(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int head_dim = GENERATE(64, 80, 96, 128);
  const int group_size = GENERATE(1, 2, 4, 8, 12);
  CAPTURE(head_dim, group_size, static_cast<int>(dtype));
  check_problem(backend, random_problem({1, 63, 64, 65, 200, 0}, group_size, head_dim, dtype));
}

void check_long(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const bool with_scratch = GENERATE(true, false);
  // 9000 slots are more than kMaxDecodeSplits tiles; the second head fills a small part of the same capacity.
  const Problem p = random_problem({9000, 130, 0}, 2, 64, dtype, 7, 640);
  check_problem(backend, p, with_scratch);
}

void check_all_free(Backend backend) {
  Problem p = random_problem({70, 3}, 2, 64, DType::f32);
  p.cache.slot_position.assign(p.cache.slot_position.size(), -1);
  const Result result = run(backend, p, DType::f32);
  CHECK(result.o == std::vector<float>(p.q.size(), 0.0f));
  CHECK(result.lse == std::vector<float>(p.n_heads, -INFINITY));
}

/// Only where the data lie differs: slots of each head in another order.
Problem permuted(const Problem& p) {
  Problem other = p;
  const int n_slots = p.cache.n_slots[0];
  std::vector<int> order(n_slots);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(31));
  for (int slot = 0; slot < n_slots; ++slot) {
    const std::size_t from = p.cache.row(0, order[slot]);
    const std::size_t to = p.cache.row(0, slot);
    std::copy_n(p.cache.k_pool.begin() + from, p.cache.head_dim, other.cache.k_pool.begin() + to);
    std::copy_n(p.cache.v_pool.begin() + from, p.cache.head_dim, other.cache.v_pool.begin() + to);
    other.cache.slot_position[slot] = p.cache.slot_position[order[slot]];
  }
  return other;
}

void check_permutation(Backend backend) {
  const Problem p = random_problem({300}, 4, 64, DType::f32);
  const Result before = run(backend, p, DType::f32);
  const Result after = run(backend, permuted(p), DType::f32);
  // 240 terms of magnitude 1 in another order: their sums differ by a few units of the last place.
  CHECK(max_error(after.o, before.o) < 2e-6);
  CHECK(max_error(after.lse, before.lse) < 2e-6);
}

}  // namespace

TEST_CASE("decode_attention: one key gives its value and its logit", "[kernels][decode_attention]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  const Problem p = random_problem({1}, 1, 64, DType::f32);
  const Result result = run(backend, p, DType::f32);
  const std::size_t row = p.cache.row(0, 0);
  double logit = 0;
  for (int i = 0; i < 64; ++i) {
    CHECK(result.o[i] == p.cache.v_pool[row + i]);
    logit += static_cast<double>(p.q[i]) * p.cache.k_pool[row + i] * p.scale();
  }
  CHECK(result.lse[0] == Approx(logit).epsilon(1e-6));
}

TEST_CASE("decode_attention: the order of slots means nothing", "[kernels][decode_attention]") {
  check_permutation(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("decode_attention: a head without occupied slots gives zero and minus infinity",
          "[kernels][decode_attention]") {
  check_all_free(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("decode_attention: a NaN in an occupied slot is not hidden", "[kernels][decode_attention]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  Problem p = random_problem({70}, 1, 64, DType::f32);
  p.cache.k_pool[p.cache.row(0, 66)] = NAN;
  CHECK(std::isnan(run(backend, p, DType::f32).o[0]));
}

TEST_CASE("decode_attention: the CPU version is as exact as a plain one", "[kernels][decode_attention]") {
  check_shapes(Backend::cpu);
}

TEST_CASE("decode_attention: the CPU version is as exact as a plain one on long caches",
          "[kernels][decode_attention]") {
  check_long(Backend::cpu);
}

TEST_CASE("decode_attention: the CUDA version is as exact as a plain one", "[kernels][decode_attention][cuda]") {
  if (skip_without_device()) return;
  check_shapes(Backend::cuda);
}

TEST_CASE("decode_attention: the CUDA version is as exact as a plain one on long caches",
          "[kernels][decode_attention][cuda]") {
  if (skip_without_device()) return;
  check_long(Backend::cuda);
}

TEST_CASE("decode_attention: CUDA passes the identities of slots", "[kernels][decode_attention][cuda]") {
  if (skip_without_device()) return;
  check_permutation(Backend::cuda);
  check_all_free(Backend::cuda);
  const Problem p = random_problem({9000, 130}, 4, 64, DType::bf16, 7, 640);
  const Result first = run(Backend::cuda, p, DType::bf16);
  const Result second = run(Backend::cuda, p, DType::bf16);
  CHECK(first.o == second.o);  // deterministic: the same bits
  CHECK(first.lse == second.lse);
}
