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
  float soft_cap = 0;
  std::vector<float> sink = {};  // [n_heads], or none
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
DecodeAttentionArgs put(const Problem& p, DType dtype, bool with_scratch, Memory& memory) {
  HostCache cache = p.cache;
  cache.dtype = dtype;
  const SlotCacheView view = upload(cache, memory);
  const std::int64_t n_scratch = decode_attention_scratch_floats(p.n_heads, view);
  return {.cache = view,
          .q = memory.put(pack(p.q, dtype)),
          .o = memory.put(poison(p.q.size(), dtype)),
          .lse = memory.put(poison(p.n_heads)),
          .n_heads = p.n_heads,
          .scale = p.scale(),
          .scratch = with_scratch && n_scratch > 0 ? memory.put(std::vector<float>(n_scratch, 0.0f)) : nullptr,
          .variant = {p.soft_cap, p.sink.empty() ? nullptr : memory.put(p.sink)}};
}

Result get(const DecodeAttentionArgs& args, DType dtype, const Memory& memory) {
  return {unpack(memory.get(static_cast<const std::byte*>(args.o)), dtype), memory.get(args.lse)};
}

Result run(Backend backend, const Problem& p, DType dtype, bool with_scratch = true) {
  Memory memory(backend);
  const DecodeAttentionArgs args = put(p, dtype, with_scratch, memory);
  decode_attention(args, {backend});
  return get(args, dtype, memory);
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
        [&](int i) { return cache.k_pool.data() + rows[i]; }, [&](int i) { return cache.v_pool.data() + rows[i]; },
        {p.soft_cap, p.sink.empty() ? -INFINITY : p.sink[head]});
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

/// Caches of other lengths and capacities, and one of them twice.
void check_rows(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int group_size = GENERATE(1, 4, 12);
  CAPTURE(group_size, static_cast<int>(dtype));
  const Problem problems[] = {random_problem({1, 63, 64}, group_size, 64, dtype),
                              random_problem({9000, 130, 0}, group_size, 64, dtype, 7, 640),
                              random_problem({300, 2, 1100}, group_size, 64, dtype)};
  Memory memory(backend);
  std::vector<DecodeAttentionArgs> rows;
  for (const int i : {0, 1, 2, 1}) rows.push_back(put(problems[i], dtype, true, memory));
  decode_attention(rows, {backend});
  const int of_row[] = {0, 1, 2, 1};
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Result among = get(rows[row], dtype, memory), alone = run(backend, problems[of_row[row]], dtype);
    CHECK(among.o == alone.o);
    CHECK(among.lse == alone.lse);
  }
}

/// Scores have a deviation of 2: a cap of 3 bends many of them, and sinks of that deviation take a good part of a row.
void set_variant(Problem& p, bool has_cap, bool has_sink) {
  if (has_cap) p.soft_cap = 3;
  if (has_sink) p.sink = random_normal(p.n_heads, 24, 2);
}

/// So many that blocks of CUDA take several parts, heads and rows each, with lengths on both sides of a page, of a part of
/// two pages a warp and of 33 such parts; more rows than one launch has.
void check_many_rows(Backend backend) {
  const int head_dim = GENERATE(64, 128, 192, 256);
  const int group_size = GENERATE(1, 4, 12);
  const auto [has_cap, has_sink] = GENERATE(table<bool, bool>({{false, false}, {false, true}, {true, true}}));
  CAPTURE(head_dim, group_size, has_cap, has_sink);
  const std::vector<int> lengths[] = {{0, 1, 15, 16, 17, 4096, 63, 64},
                                      {128, 129, 0, 0, 2048, 300, 700, 1},
                                      {1, 1, 1, 1, 1, 1, 1, 1},
                                      {0, 0, 0, 0, 0, 0, 0, 0},
                                      {2100, 4224, 4225, 4223, 130, 127, 2049, 31}};
  Memory memory(backend);
  std::vector<Problem> problems;
  std::vector<DecodeAttentionArgs> rows;
  std::vector<Result> alone;
  for (const std::vector<int>& n_slots : lengths) {
    problems.push_back(random_problem(n_slots, group_size, head_dim, DType::bf16, 5, 280));
    set_variant(problems.back(), has_cap, has_sink);
    alone.push_back(run(backend, problems.back(), DType::bf16));
    rows.push_back(put(problems.back(), DType::bf16, true, memory));
    rows.back().variant = rows.front().variant;  // a layer's, equal for all
  }
  while (rows.size() < 36) {  // the same caches again, with other memory to write to
    rows.push_back(rows[rows.size() - problems.size()]);
    rows.back().o = memory.put(poison(problems[0].q.size(), DType::bf16));
    rows.back().lse = memory.put(poison(rows.back().n_heads));
    const std::int64_t n_scratch = decode_attention_scratch_floats(rows.back().n_heads, rows.back().cache);
    rows.back().scratch = memory.put(std::vector<float>(n_scratch, 0.0f));
  }
  for (int step = 0; step < 2; ++step) {  // again with the scratch that the first one left
    decode_attention(rows, {backend});
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const Result among = get(rows[row], DType::bf16, memory);
      CHECK(among.o == alone[row % problems.size()].o);
      CHECK(among.lse == alone[row % problems.size()].lse);
    }
  }
  check_problem(backend, problems.back());
}

void check_shapes(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int head_dim = GENERATE(64, 80, 96, 128, 192, 256);
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

void check_variants(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const auto [has_cap, has_sink] = GENERATE(table<bool, bool>({{true, false}, {false, true}, {true, true}}));
  const int head_dim = GENERATE(64, 80, 96, 128, 192, 256);
  const int group_size = GENERATE(1, 4, 12);
  CAPTURE(has_cap, has_sink, head_dim, group_size, static_cast<int>(dtype));
  Problem p = random_problem({1, 63, 64, 65, 200, 0}, group_size, head_dim, dtype);
  set_variant(p, has_cap, has_sink);
  check_problem(backend, p);
  Problem one_block = random_problem({9000, 130, 0}, 2, 64, dtype, 7, 640);
  if (head_dim != 64 || group_size != 1) return;
  set_variant(one_block, has_cap, has_sink);
  check_problem(backend, one_block, GENERATE(true, false));
}

/// c tanh(s / c) = s (1 - (s / c)^2 / 3 ...): for |s| < 20 this cap is none, but for five roundings (division, tanh with
/// three, product), each of at most 20 / 2^24. A weight is off by as much, relatively, and so is a mean of values near 1.
constexpr float kWideCap = 1e5f;
constexpr double kWideCapError = 5 * 20 * 0x1p-24;

/// CUDA has an instance of the kernel for each variant, where a compiler may order a product and a sum differently: not
/// the same bits there, but as exact.
void check_same(const Result& found, const Result& expected, DType dtype, double error) {
  CHECK(max_error(found.o, expected.o) <= error + (error == 0 ? 0 : allowed_error(0, expected.o, dtype)));
  CHECK(max_error(found.lse, expected.lse) <= error + (error == 0 ? 0 : allowed_error(0, expected.lse, DType::f32)));
}

void check_variant_identities(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Problem plain = random_problem({300, 70, 0}, 4, 64, dtype, 5, 40);
  const Result expected = run(backend, plain, dtype);

  Problem no_sink = plain;
  no_sink.sink.assign(plain.n_heads, -INFINITY);
  check_same(run(backend, no_sink, dtype), expected, dtype, backend == Backend::cuda ? 0x1p-24 : 0);

  Problem wide = plain;
  wide.soft_cap = kWideCap;
  check_same(run(backend, wide, dtype), expected, dtype, kWideCapError);

  // A sink is a key of its score without a value. Slot 4 is free; its key gives each query head another score.
  Problem with_key = plain, with_sink = plain;
  with_key.soft_cap = with_sink.soft_cap = GENERATE(0.0f, 3.0f);
  const std::vector<float> key = rounded(random_normal(64, 25), dtype);
  for (int kv_head = 0; kv_head < 2; ++kv_head) {
    const std::size_t row = plain.cache.row(kv_head, 4);
    REQUIRE(plain.cache.slot_position[kv_head * plain.cache.capacity() + 4] < 0);
    with_key.cache.slot_position[kv_head * plain.cache.capacity() + 4] = 4;
    std::copy(key.begin(), key.end(), with_key.cache.k_pool.begin() + row);
    std::fill_n(with_key.cache.v_pool.begin() + row, 64, 0.0f);
  }
  for (int head = 0; head < plain.n_heads; ++head) {
    const double dot = std::inner_product(key.begin(), key.end(), plain.q.begin() + head * 64, 0.0);
    const double score = dot * plain.scale(), cap = with_key.soft_cap;
    with_sink.sink.push_back(static_cast<float>(cap > 0 ? cap * std::tanh(score / cap) : score));
  }
  for (int head = 8; head < 12; ++head) with_sink.sink[head] = -INFINITY;  // the third KV head got no key
  const Result exact = run(Backend::reference, with_key, DType::f32), found = run(backend, with_sink, dtype);
  const Result rounded = naive(with_key, dtype);
  CHECK(max_error(found.o, exact.o) <= allowed_error(max_error(rounded.o, exact.o), exact.o, dtype));
  CHECK(max_error(found.lse, exact.lse) <= allowed_error(max_error(rounded.lse, exact.lse), exact.lse, DType::f32));
}

void check_sink_alone(Backend backend) {
  Problem p = random_problem({70, 0}, 2, 64, DType::f32);
  p.cache.slot_position.assign(p.cache.slot_position.size(), -1);
  p.sink = {-2, 0, 3, 100};
  const Result result = run(backend, p, DType::f32);
  CHECK(result.o == std::vector<float>(p.q.size(), 0.0f));
  CHECK(max_error(result.lse, p.sink) <= allowed_error(0, p.sink, DType::f32));
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

TEST_CASE("decode_attention: the CPU version of a soft cap and a sink is as exact as a plain one",
          "[kernels][decode_attention][variant]") {
  check_variants(Backend::cpu);
}

TEST_CASE("decode_attention: a wide cap and a sink of -inf are none, another sink is a key without a value",
          "[kernels][decode_attention][variant]") {
  check_variant_identities(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("decode_attention: a head without occupied slots gives zero and its sink",
          "[kernels][decode_attention][variant]") {
  check_sink_alone(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("decode_attention: on CUDA a soft cap and a sink are as exact as a plain version",
          "[kernels][decode_attention][variant][cuda]") {
  if (skip_without_device()) return;
  check_variants(Backend::cuda);
}

TEST_CASE("decode_attention: on CUDA a soft cap and a sink pass the identities of their definition",
          "[kernels][decode_attention][variant][cuda]") {
  if (skip_without_device()) return;
  check_variant_identities(Backend::cuda);
  check_sink_alone(Backend::cuda);
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

TEST_CASE("decode_attention: a row gives the same bits alone or among others", "[kernels][decode_attention]") {
  check_rows(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("decode_attention: on CUDA a row gives the same bits alone or among others",
          "[kernels][decode_attention][cuda]") {
  if (skip_without_device()) return;
  check_rows(Backend::cuda);
}

TEST_CASE("decode_attention: on CUDA a row among many gives the same bits as alone",
          "[kernels][decode_attention][cuda]") {
  if (skip_without_device()) return;
  check_many_rows(Backend::cuda);
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
