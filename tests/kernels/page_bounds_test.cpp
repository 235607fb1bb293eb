#include "kernels/page_bounds.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

std::size_t elements(const HostCache& cache) {
  return static_cast<std::size_t>(cache.n_kv_heads) * cache.max_pages * 2 * cache.head_dim;
}

/// `before` as bounds, then the pages of `slots` (one a head; empty: all pages) made anew.
std::vector<std::byte> run(Backend backend, const HostCache& cache, const std::vector<std::byte>& before,
                           const std::vector<std::int32_t>& slots = {}) {
  Memory memory(backend);
  std::vector<RetainDecision> decisions;
  for (const std::int32_t slot : slots) decisions.push_back({.newcomer = 3, .evicted = 3, .slot = slot});
  auto* bounds = memory.put(before);
  const PageBoundsArgs args = {
      .cache = upload(cache, memory), .decision = slots.empty() ? nullptr : memory.put(decisions), .bounds = bounds};
  page_bounds(args, {backend});
  return memory.get(bounds);
}

/// Page size 4. Page 0 has keys 3, -1 (free: NaN), 2 and -5 in channel 0, page 1 one key of 7, page 2 none.
void check_golden(Backend backend) {
  HostCache cache = empty_cache({12}, 64, 4, DType::f32, 81, 4);
  const auto put = [&](int slot, float x) {
    std::fill_n(cache.k_pool.begin() + cache.row(0, slot), 64, 0.5f);
    cache.k_pool[cache.row(0, slot)] = x;
    cache.slot_position[slot] = slot;
  };
  put(0, 3);
  put(2, 2);
  put(3, -5);
  put(5, 7);
  const auto bounds =
      unpack(run(backend, cache, pack(std::vector<float>(elements(cache), 99.0f), DType::f32)), DType::f32);
  CHECK(bounds[0] == -5);
  CHECK(bounds[64] == 3);
  CHECK(bounds[128] == 7);
  CHECK(bounds[128 + 64] == 7);
  for (int i = 0; i < 256; ++i) {
    if (i % 64 != 0) CHECK(bounds[i] == 0.5f);
  }
  for (int i = 256; i < 512; ++i) CHECK(bounds[i] == 99);  // pages without a token

  cache.k_pool[cache.row(0, 2) + 5] = NAN;
  const auto broken =
      unpack(run(backend, cache, pack(std::vector<float>(elements(cache), 99.0f), DType::f32)), DType::f32);
  CHECK(std::isnan(broken[5]));
  CHECK(std::isnan(broken[64 + 5]));
  CHECK(broken[6] == 0.5f);
}

void check_shapes(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int head_dim = GENERATE(64, 80, 96, 128, 192, 256);
  const int page_size = GENERATE(16, 5);
  const int free_every = GENERATE(0, 1, 2, 5);  // 1: all of them
  CAPTURE(head_dim, page_size, free_every, static_cast<int>(dtype));
  HostCache cache = empty_cache({1, 15, 16, 17, 200, 0}, head_dim, 45, dtype, 82, page_size);
  fill_slots(cache, free_every, 83);
  const auto before = poison(elements(cache), dtype);
  CHECK(run(backend, cache, before) == run(Backend::reference, cache, before));
}

/// A new token in the middle, one in a fresh slot of the last page and one that opens a page.
void check_step(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  constexpr int kDim = 80;
  HostCache cache = empty_cache({100, 42, 49}, kDim, 8, dtype, 84);
  fill_slots(cache, 5, 85);
  // The last page of head 2 is there, but was not when the bounds were made.
  cache.n_slots[2] = 48;
  const auto before = run(backend, cache, poison(elements(cache), dtype));
  cache.n_slots[2] = 49;
  const std::vector<std::int32_t> slots = {37, 41, 48};
  for (int head = 0; head < 3; ++head) {
    const auto key = rounded(random_normal(kDim, 86 + head), dtype);
    std::copy_n(key.begin(), kDim, cache.k_pool.begin() + cache.row(head, slots[head]));
    cache.slot_position[head * cache.capacity() + slots[head]] = 1000;
  }
  const auto after = run(backend, cache, before, slots);
  CHECK(after == run(backend, cache, poison(elements(cache), dtype)));
  CHECK(after != before);

  // Nothing but the pages of the new tokens is touched: of others not even what has become wrong.
  const auto touched = run(backend, cache, poison(elements(cache), dtype), slots);
  const std::size_t page_bytes = 2 * kDim * size_of(dtype);
  for (int head = 0; head < 3; ++head) {
    for (int page = 0; page < 8; ++page) {
      const auto begin = static_cast<std::ptrdiff_t>((head * 8 + page) * page_bytes);
      const auto end = begin + static_cast<std::ptrdiff_t>(page_bytes);
      const auto& expected = page == slots[head] / 16 ? after : poison(elements(cache), dtype);
      CAPTURE(head, page);
      CHECK(std::equal(touched.begin() + begin, touched.begin() + end, expected.begin() + begin));
    }
  }
}

}  // namespace

TEST_CASE("page_bounds: bounds are those found by hand", "[kernels][page_bounds]") {
  check_golden(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("page_bounds: after a step the new token's page made anew is all that all pages made anew are",
          "[kernels][page_bounds]") {
  check_step(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("page_bounds: the CPU version gives the reference's bits", "[kernels][page_bounds]") {
  check_shapes(Backend::cpu);
}

TEST_CASE("page_bounds: refuses a missing pointer by name", "[kernels][page_bounds][validate]") {
  float x = 0;
  std::int32_t n = 0;
  const PageBoundsArgs args = {.cache = {.k_pool = &x,
                                         .page_table = &n,
                                         .slot_position = &n,
                                         .n_slots = &n,
                                         .n_kv_heads = 1,
                                         .head_dim = 64,
                                         .page_size = 16,
                                         .max_pages = 1},
                               .decision = nullptr,
                               .bounds = nullptr};
  CHECK_THROWS_WITH(page_bounds(args, {}), "page_bounds: bounds is null");
}

TEST_CASE("page_bounds: on CUDA bounds are those found by hand", "[kernels][page_bounds][cuda]") {
  if (skip_without_device()) return;
  check_golden(Backend::cuda);
}

TEST_CASE("page_bounds: on CUDA after a step one page made anew is all that all pages made anew are",
          "[kernels][page_bounds][cuda]") {
  if (skip_without_device()) return;
  check_step(Backend::cuda);
}

TEST_CASE("page_bounds: the CUDA version gives the reference's bits", "[kernels][page_bounds][cuda]") {
  if (skip_without_device()) return;
  check_shapes(Backend::cuda);
}
