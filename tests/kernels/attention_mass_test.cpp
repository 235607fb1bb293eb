#include "kernels/attention_mass.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "kernels/decode_attention.h"
#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;
using Catch::Matchers::Contains;

namespace {

struct Problem {
  HostCache cache;
  std::vector<float> q;    // [n_heads, head_dim]
  std::vector<float> lse;  // [n_heads]
  int n_heads;
  std::int32_t position;
  float scale;
  float soft_cap = 0;
  std::vector<float> sink = {};  // [n_heads], in lse; or none
};

std::vector<float> run(Backend backend, const Problem& p, MassRule rule) {
  Memory memory(backend);
  const SlotCacheView view = upload(p.cache, memory);
  const AttentionMassArgs args = {.cache = view,
                                  .q = memory.put(pack(p.q, p.cache.dtype)),
                                  .lse = memory.put(p.lse),
                                  .position = memory.put(std::vector<std::int32_t>{p.position}),
                                  .n_heads = p.n_heads,
                                  .scale = p.scale,
                                  .rule = rule,
                                  .soft_cap = p.soft_cap};
  attention_mass(args, {backend});
  return memory.get(view.slot_priority);
}

/// lse as `backend` itself finds it.
std::vector<float> lse_of(Backend backend, const Problem& p) {
  Memory memory(backend);
  const SlotCacheView view = upload(p.cache, memory);
  float* lse = memory.put(poison(p.n_heads));
  const std::int64_t n_scratch = decode_attention_scratch_floats(p.n_heads, view);
  const DecodeAttentionArgs args = {.cache = view,
                                    .q = memory.put(pack(p.q, p.cache.dtype)),
                                    .o = memory.put(poison(p.q.size(), p.cache.dtype)),
                                    .lse = lse,
                                    .n_heads = p.n_heads,
                                    .scale = p.scale,
                                    .scratch = memory.put(std::vector<float>(n_scratch + 1, 0.0f)),
                                    .variant = {p.soft_cap, p.sink.empty() ? nullptr : memory.put(p.sink)}};
  decode_attention(args, {backend});
  return memory.get(lse);
}

/// Every fifth slot is free and its key NaN. Old priorities are of the size of one step's mass, so that they hide
/// nothing; the newest token is that of slot 2.
Problem random_problem(const std::vector<int>& n_slots, int group_size, int head_dim, DType dtype, int max_pages) {
  Problem p = {empty_cache(n_slots, head_dim, max_pages, dtype, 71)};
  fill_slots(p.cache, 5, 72);
  p.cache.slot_priority = random_normal(p.cache.slot_priority.size(), 73, 0.01f);
  p.n_heads = static_cast<int>(n_slots.size()) * group_size;
  p.q = rounded(random_normal(static_cast<std::size_t>(p.n_heads) * head_dim, 74, 2), dtype);
  p.position = 6;
  p.scale = 1 / std::sqrt(static_cast<float>(head_dim));
  p.lse = lse_of(Backend::reference, p);
  return p;
}

/// The same with a newest token that no slot is ahead of, as mean asks.
Problem with_newest(Problem p) {
  p.position = *std::ranges::max_element(p.cache.slot_position);
  return p;
}

/// The definition as one would write it with floats.
std::vector<float> naive(const Problem& p, MassRule rule) {
  const HostCache& cache = p.cache;
  const int group_size = p.n_heads / cache.n_kv_heads;
  std::vector<float> priority = cache.slot_priority;
  std::vector<float> of_layer(cache.capacity(), 0.0f);
  const auto for_each_occupied = [&](const auto& body) {
    for (int kv_head = 0; kv_head < cache.n_kv_heads; ++kv_head) {
      for (int slot = 0; slot < cache.n_slots[kv_head]; ++slot) {
        if (cache.slot_position[kv_head * cache.capacity() + slot] >= 0) body(kv_head, slot);
      }
    }
  };
  for_each_occupied([&](int kv_head, int slot) {
    float mass = 0;
    for (int head = kv_head * group_size; head < (kv_head + 1) * group_size; ++head) {
      float dot = 0;
      for (int i = 0; i < cache.head_dim; ++i) {
        dot += p.q[head * cache.head_dim + i] * cache.k_pool[cache.row(kv_head, slot) + i];
      }
      const float score = p.scale * dot;
      mass += std::exp((p.soft_cap > 0 ? p.soft_cap * std::tanh(score / p.soft_cap) : score) - p.lse[head]);
    }
    of_layer[slot] += mass;
    const int at = kv_head * cache.capacity() + slot;
    if (rule == MassRule::last) return;
    const int n = p.position - cache.slot_position[at] + 1;  // queries that could see it
    const float before = n == 1 ? 0 : priority[at];
    priority[at] = rule == MassRule::sum
                       ? before + mass / group_size
                       : (before * static_cast<float>(n - 1) + mass / group_size) / static_cast<float>(n);
  });
  for_each_occupied([&](int kv_head, int slot) {
    if (rule == MassRule::last) priority[kv_head * cache.capacity() + slot] = of_layer[slot] / p.n_heads;
  });
  return priority;
}

/// The largest |x|^2 of rows of head_dim numbers. Free slots are NaN, which is greater than nothing.
double largest_square(const std::vector<float>& rows, int head_dim) {
  double largest = 0;
  for (auto row = rows.begin(); row != rows.end(); row += head_dim) {
    const double square = std::inner_product(row, row + head_dim, row, 0.0);
    if (square > largest) largest = square;
  }
  return largest;
}

/// What is allowed beside the rule of allowed_error(): the rounding of a dot product grows with |q| |k|, however small
/// the sum is, and exp makes the logit's absolute error a relative one. Four units of the last place.
double logit_error(const Problem& p, const std::vector<float>& expected) {
  const double logit =
      p.scale * std::sqrt(largest_square(p.q, p.cache.head_dim) * largest_square(p.cache.k_pool, p.cache.head_dim));
  return 0x1p-22 * logit * *std::max_element(expected.begin(), expected.end());
}

void check_problem(Backend backend, const Problem& p, MassRule rule) {
  const std::vector<float> expected = run(Backend::reference, p, rule);
  const std::vector<float> found = run(backend, p, rule);
  CHECK(max_error(found, expected) <=
        allowed_error(max_error(naive(p, rule), expected), expected, DType::f32) + logit_error(p, expected));
  CHECK(run(backend, p, rule) == found);  // deterministic: the same bits
}

void check_shapes(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int head_dim = GENERATE(64, 80, 96, 128, 192, 256);
  const int group_size = GENERATE(1, 2, 4, 12);
  const int n_kv_heads = GENERATE(1, 3, 9);  // nine: one more than a block has warps
  if (left_out(5)) return;
  CAPTURE(head_dim, group_size, static_cast<int>(dtype));
  check_problem(backend, random_problem({1, 63, 64, 65, 200, 0}, group_size, head_dim, dtype, 15), MassRule::sum);
  check_problem(backend, with_newest(random_problem({1, 63, 64, 65, 200, 0}, group_size, head_dim, dtype, 15)),
                MassRule::mean);
  const std::vector<int> n_slots(n_kv_heads, 131);
  check_problem(backend, random_problem(n_slots, group_size, head_dim, dtype, 10), MassRule::last);
}

void check_soft_cap(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const MassRule rule = GENERATE(MassRule::sum, MassRule::last);
  Problem p = random_problem({131, 131, 131}, 4, GENERATE(64, 80, 96, 128, 192, 256), dtype, 10);
  p.soft_cap = 3;  // of scores with a deviation of 2
  p.lse = lse_of(Backend::reference, p);
  check_problem(backend, p, rule);
}

/// More slots than the blocks of a launch take in one turn.
void check_long(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  check_problem(backend, random_problem({17'000, 130, 0}, 2, 64, dtype, 1200), MassRule::sum);
  check_problem(backend, with_newest(random_problem({17'000, 130, 0}, 2, 64, dtype, 1200)), MassRule::mean);
  check_problem(backend, random_problem({5000, 5000}, 2, 64, dtype, 400), MassRule::last);
}

/// Two query heads with q = 1 and 2 in channel 0 and three keys with 0, ln 2 and 0 there: e^(q k) is 1, 2, 1 and
/// 1, 4, 1, so p is 1/4, 1/2, 1/4 and 1/6, 2/3, 1/6, with means 5/24, 7/12, 5/24. Slot 1 holds the new token; slot 3 is
/// free. `n_kv_heads` 1: one group of two; 2: two groups of one that hold the same keys.
Problem golden_problem(int n_kv_heads) {
  Problem p = {empty_cache(std::vector<int>(n_kv_heads, 4), 64, 1, DType::f32, 75)};
  const float key[3] = {0, std::log(2.0f), 0};
  for (int head = 0; head < n_kv_heads; ++head) {
    for (int slot = 0; slot < 3; ++slot) {
      std::fill_n(p.cache.k_pool.begin() + p.cache.row(head, slot), 64, 0.0f);
      p.cache.k_pool[p.cache.row(head, slot)] = key[slot];
      p.cache.slot_position[head * 16 + slot] = slot == 0 ? 7 : slot == 1 ? 9 : 8;
    }
  }
  p.n_heads = 2;
  p.q = std::vector<float>(2 * 64, 0.0f);
  p.q[0] = 1;
  p.q[64] = 2;
  p.lse = {std::log(4.0f), std::log(6.0f)};
  p.position = 9;
  p.scale = 1;
  return p;
}

void check_golden(Backend backend) {
  Problem p = golden_problem(1);
  p.cache.slot_priority[0] = 1;
  p.cache.slot_priority[2] = 0.5f;  // slot 1 has no sum yet: NaN
  const std::vector<float> sum = run(backend, p, MassRule::sum);
  CHECK(sum[0] == Approx(1 + 5.0 / 24).epsilon(1e-6));
  CHECK(sum[1] == Approx(7.0 / 12).epsilon(1e-6));
  CHECK(sum[2] == Approx(0.5 + 5.0 / 24).epsilon(1e-6));
  for (int slot = 3; slot < 16; ++slot) CHECK(std::isnan(sum[slot]));

  const std::vector<float> mean = run(backend, p, MassRule::mean);
  CHECK(mean[0] == Approx((2 * 1 + 5.0 / 24) / 3).epsilon(1e-6));  // two queries saw it before
  CHECK(mean[1] == Approx(7.0 / 12).epsilon(1e-6));
  CHECK(mean[2] == Approx((0.5 + 5.0 / 24) / 2).epsilon(1e-6));

  const std::vector<float> last = run(backend, golden_problem(2), MassRule::last);
  for (int head = 0; head < 2; ++head) {
    CAPTURE(head);
    CHECK(last[head * 16] == Approx(5.0 / 24).epsilon(1e-6));
    CHECK(last[head * 16 + 1] == Approx(7.0 / 12).epsilon(1e-6));
    CHECK(last[head * 16 + 2] == Approx(5.0 / 24).epsilon(1e-6));
    CHECK(std::isnan(last[head * 16 + 3]));
  }
  const std::vector<float> of_groups = run(backend, golden_problem(2), MassRule::sum);
  CHECK(of_groups[1] == Approx(0.5).epsilon(1e-6));
  CHECK(of_groups[16 + 1] == Approx(2.0 / 3).epsilon(1e-6));
}

/// With the lse that decode_attention of the same back end gives; less what its sink takes.
void check_sum_is_one(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const MassRule rule = GENERATE(MassRule::sum, MassRule::last);
  Problem p = random_problem({700, 700, 700}, 4, 128, dtype, 50);
  p.cache.slot_priority.assign(p.cache.slot_priority.size(), 0);
  const auto [soft_cap, has_sink] = GENERATE(table<float, bool>({{0, false}, {3, false}, {0, true}, {3, true}}));
  p.soft_cap = soft_cap;
  if (has_sink) p.sink.assign(12, 4);  // of 560 keys with a mean weight of e^2, about 1 %
  p.lse = lse_of(backend, p);
  const std::vector<float> mass = run(backend, p, rule);
  for (int head = 0; head < 3; ++head) {
    const auto row = mass.begin() + head * p.cache.capacity();
    const int from = rule == MassRule::sum ? head * 4 : 0, n = rule == MassRule::sum ? 4 : 12;
    double expected = 1;
    for (int h = from; has_sink && h < from + n; ++h) expected -= std::exp(4.0 - p.lse[h]) / n;
    // Logits of size 10 are right to some 1e-5 (bfloat16 on tensor cores), and so is their exponential.
    CHECK(std::accumulate(row, row + p.cache.capacity(), 0.0) == Approx(expected).epsilon(1e-4));
  }
}

}  // namespace

TEST_CASE("attention_mass: sums and means are those found by hand", "[kernels][attention_mass]") {
  check_golden(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("attention_mass: what one query gives away is one in all", "[kernels][attention_mass]") {
  check_sum_is_one(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("attention_mass: a NaN in an occupied slot is not hidden", "[kernels][attention_mass]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  const MassRule rule = GENERATE(MassRule::sum, MassRule::last);
  Problem p = golden_problem(2);
  p.cache.slot_priority.assign(p.cache.slot_priority.size(), 0);
  p.cache.k_pool[p.cache.row(1, 2)] = NAN;
  const std::vector<float> mass = run(backend, p, rule);
  CHECK(std::isnan(mass[16 + 2]));
  CHECK(std::isnan(mass[2]) == (rule == MassRule::last));
}

TEST_CASE("attention_mass: the CPU version is as exact as a plain one", "[kernels][attention_mass]") {
  check_shapes(Backend::cpu);
}

TEST_CASE("attention_mass: the CPU version is as exact as a plain one on long caches", "[kernels][attention_mass]") {
  check_long(Backend::cpu);
}

TEST_CASE("attention_mass: the CPU version of a soft cap is as exact as a plain one",
          "[kernels][attention_mass][variant]") {
  check_soft_cap(Backend::cpu);
}

TEST_CASE("attention_mass: the CUDA version of a soft cap is as exact as a plain one",
          "[kernels][attention_mass][variant][cuda]") {
  if (skip_without_device()) return;
  check_soft_cap(Backend::cuda);
}

TEST_CASE("attention_mass: refuses what it cannot do, by name", "[kernels][attention_mass][validate]") {
  float x = 0;
  std::int32_t n = 0;
  AttentionMassArgs args = {.cache = {.k_pool = &x,
                                      .page_table = &n,
                                      .slot_position = &n,
                                      .n_slots = &n,
                                      .slot_priority = &x,
                                      .n_kv_heads = 1,
                                      .head_dim = 64,
                                      .page_size = 16,
                                      .max_pages = 1},
                            .q = &x,
                            .lse = &x,
                            .n_heads = 1,
                            .scale = 1,
                            .rule = MassRule::sum};
  CHECK_THROWS_WITH(attention_mass(args, {}), "attention_mass: position is null");
  args.rule = static_cast<MassRule>(3);
  CHECK_THROWS_WITH(attention_mass(args, {}), "attention_mass: rule is 3; expected 0 ... 2");
  args.rule = MassRule::last;
  CHECK_NOTHROW(attention_mass(args, {}));  // needs no position
  args.cache.slot_priority = nullptr;
  CHECK_THROWS_WITH(attention_mass(args, {Backend::reference}), "attention_mass: cache.slot_priority is null");
}

TEST_CASE("attention_mass: on CUDA sums and means are those found by hand", "[kernels][attention_mass][cuda]") {
  if (skip_without_device()) return;
  check_golden(Backend::cuda);
}

TEST_CASE("attention_mass: on CUDA what one query gives away is one in all", "[kernels][attention_mass][cuda]") {
  if (skip_without_device()) return;
  check_sum_is_one(Backend::cuda);
}

TEST_CASE("attention_mass: the CUDA version is as exact as a plain one", "[kernels][attention_mass][cuda]") {
  if (skip_without_device()) return;
  check_shapes(Backend::cuda);
}

TEST_CASE("attention_mass: the CUDA version is as exact as a plain one on long caches",
          "[kernels][attention_mass][cuda]") {
  if (skip_without_device()) return;
  check_long(Backend::cuda);
}
