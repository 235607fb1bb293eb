#include "kernels/append.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

struct Pools {
  std::vector<std::byte> k, v;
  std::vector<std::int32_t> position;
  bool operator==(const Pools&) const = default;
};

Pools pools(const Memory& memory, const SlotCacheView& view) {
  return {memory.get(static_cast<std::byte*>(view.k_pool)), memory.get(static_cast<std::byte*>(view.v_pool)),
          memory.get(view.slot_position)};
}

/// What must be there, written out by hand on the host cache.
Pools expected_pools(HostCache cache, const std::vector<float>& k, const std::vector<float>& v,
                     const std::vector<std::int32_t>& slot, const std::vector<std::int32_t>& position) {
  const int n_tokens = static_cast<int>(position.size());
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    for (int token = 0; token < n_tokens; ++token) {
      const int s = slot[head * n_tokens + token];
      if (s < 0) continue;
      const std::size_t from = (static_cast<std::size_t>(token) * cache.n_kv_heads + head) * cache.head_dim;
      std::copy_n(k.begin() + from, cache.head_dim, cache.k_pool.begin() + cache.row(head, s));
      std::copy_n(v.begin() + from, cache.head_dim, cache.v_pool.begin() + cache.row(head, s));
      cache.slot_position[head * cache.capacity() + s] = position[token];
    }
  }
  return {pack(cache.k_pool, cache.dtype), pack(cache.v_pool, cache.dtype), cache.slot_position};
}

void check(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int head_dim = GENERATE(64, 80, 128, 256);
  CAPTURE(head_dim, static_cast<int>(dtype));
  const HostCache cache = empty_cache({40, 17, 3}, head_dim, 5, dtype, 11);
  const auto k = rounded(random_normal(4 * 3 * head_dim, 5), dtype);
  const auto v = rounded(random_normal(4 * 3 * head_dim, 6), dtype);
  // -1 writes nothing; slots out of order and at both ends of a page.
  const std::vector<std::int32_t> slots = {39, 0, 15, 16, -1, 16, 3, -1, 2, -1, 0, 1};
  const std::vector<std::int32_t> positions = {7, 8, 9, 1000};

  Memory many(backend);
  const SlotCacheView view = upload(cache, many);
  const AppendArgs all = {.cache = view,
                          .k = many.put(pack(k, dtype)),
                          .v = many.put(pack(v, dtype)),
                          .slot = many.put(slots),
                          .position = many.put(positions),
                          .n_tokens = 4};
  append(all, {backend});
  CHECK(pools(many, view) == expected_pools(cache, k, v, slots, positions));

  Memory single(backend);
  const SlotCacheView view_of_one = upload(cache, single);
  const std::vector<std::int32_t> one_slot = {21, -1, 2};
  const AppendArgs one = {.cache = view_of_one,
                          .k = single.put(pack(k, dtype)),
                          .v = single.put(pack(v, dtype)),
                          .slot = single.put(one_slot),
                          .position = single.put(std::vector<std::int32_t>{123}),
                          .n_tokens = 1};
  append(one, {backend});
  CHECK(pools(single, view_of_one) == expected_pools(cache, k, v, one_slot, {123}));
}

}  // namespace

TEST_CASE("append: rows land in their slots, bit for bit, and nowhere else", "[kernels][append]") {
  check(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("append: on CUDA rows land in their slots, bit for bit, and nowhere else", "[kernels][append][cuda]") {
  if (skip_without_device()) return;
  check(Backend::cuda);
}
