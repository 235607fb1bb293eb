#include "kernels/lifetime_attention.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/kernels/backend.h"
#include "tests/kernels/naive_attention.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

constexpr std::int32_t kNever = INT32_MAX;

struct Problem {
  int q_start, q_len, kv_len, n_heads, n_kv_heads, head_dim;
  DType dtype;
  std::vector<float> q, k, v;
  std::vector<std::int32_t> evict_at;  // [n_kv_heads, kv_len] or empty
  std::vector<std::int32_t> position;  // likewise; then k and v are [n_kv_heads, kv_len, head_dim]
  float soft_cap = 0;
  std::vector<float> sink = {};  // [n_heads], or none

  float scale() const { return 1 / std::sqrt(static_cast<float>(head_dim)); }
  bool visible(int kv_head, int position, int t) const {
    return t <= position && (evict_at.empty() || position < evict_at[kv_head * kv_len + t]);
  }
};

/// Keys past the last query are there but NaN: memory that a caller has set aside and not written.
Problem random_problem(int q_start, int q_len, int spare, int n_heads, int n_kv_heads, int head_dim, DType dtype) {
  Problem p = {q_start, q_len, q_start + q_len + spare, n_heads, n_kv_heads, head_dim, dtype};
  const std::size_t kv_size = static_cast<std::size_t>(p.kv_len) * n_kv_heads * head_dim;
  p.q = rounded(random_normal(static_cast<std::size_t>(q_len) * n_heads * head_dim, 41, 2), dtype);
  p.k = rounded(random_normal(kv_size, 42), dtype);
  p.v = rounded(random_normal(kv_size, 43), dtype);
  const std::size_t written = static_cast<std::size_t>(q_start + q_len) * n_kv_heads * head_dim;
  std::fill(p.k.begin() + written, p.k.end(), NAN);
  std::fill(p.v.begin() + written, p.v.end(), NAN);
  return p;
}

enum class Lifetimes { causal, never, window, random, all_evicted };

void set_lifetimes(Problem& p, Lifetimes kind, int window = 20) {
  if (kind == Lifetimes::causal) return;
  std::mt19937 generator(44);
  p.evict_at.resize(static_cast<std::size_t>(p.n_kv_heads) * p.kv_len);
  for (std::size_t i = 0; i < p.evict_at.size(); ++i) {
    const int t = static_cast<int>(i % p.kv_len);
    const int random_life = generator() % 4 == 0 ? kNever - t : static_cast<int>(generator() % 60) + 1;
    p.evict_at[i] = kind == Lifetimes::never    ? kNever
                    : kind == Lifetimes::window ? t + window
                    : kind == Lifetimes::random ? t + random_life
                                                : 0;
  }
}

struct Result {
  std::vector<float> o, lse;
};

Result run(Backend backend, const Problem& p, DType dtype) {
  Memory memory(backend);
  auto* o = memory.put(poison(p.q.size(), dtype));
  auto* lse = memory.put(poison(static_cast<std::size_t>(p.n_heads) * p.q_len));
  const LifetimeAttentionArgs args = {.q = memory.put(pack(p.q, dtype)),
                                      .k = memory.put(pack(p.k, dtype)),
                                      .v = memory.put(pack(p.v, dtype)),
                                      .evict_at = p.evict_at.empty() ? nullptr : memory.put(p.evict_at),
                                      .o = o,
                                      .lse = lse,
                                      .q_start = p.q_start,
                                      .q_len = p.q_len,
                                      .kv_len = p.kv_len,
                                      .n_heads = p.n_heads,
                                      .n_kv_heads = p.n_kv_heads,
                                      .head_dim = p.head_dim,
                                      .scale = p.scale(),
                                      .dtype = dtype,
                                      .k_position = p.position.empty() ? nullptr : memory.put(p.position),
                                      .kv_token_stride = p.position.empty() ? 0 : p.head_dim,
                                      .kv_head_stride = p.position.empty() ? 0 : p.kv_len * p.head_dim,
                                      .variant = {p.soft_cap, p.sink.empty() ? nullptr : memory.put(p.sink)}};
  lifetime_attention(args, {backend});
  return {unpack(memory.get(o), dtype), memory.get(lse)};
}

Result naive(const Problem& p) {
  Result result = {std::vector<float>(p.q.size()), std::vector<float>(static_cast<std::size_t>(p.n_heads) * p.q_len)};
  for (int head = 0; head < p.n_heads; ++head) {
    const int kv_head = head / (p.n_heads / p.n_kv_heads);
    for (int row = 0; row < p.q_len; ++row) {
      std::vector<std::size_t> keys;
      for (int t = 0; t < p.kv_len; ++t) {
        if (p.visible(kv_head, p.q_start + row, t)) keys.push_back((t * p.n_kv_heads + kv_head) * p.head_dim);
      }
      const std::size_t at = (static_cast<std::size_t>(row) * p.n_heads + head) * p.head_dim;
      const NaiveRow plain = naive_attention(
          p.q.data() + at, static_cast<int>(keys.size()), p.head_dim, p.scale(), p.dtype,
          [&](int i) { return p.k.data() + keys[i]; }, [&](int i) { return p.v.data() + keys[i]; },
          {p.soft_cap, p.sink.empty() ? -INFINITY : p.sink[head]});
      std::copy(plain.o.begin(), plain.o.end(), result.o.begin() + at);
      result.lse[head * p.q_len + row] = plain.lse;
    }
  }
  return result;
}

/// The same problem as a cache that evicts has it: of every head only the keys that some query sees, in any order, and
/// rows that hold no token (NaN, evicted before the first query) among them.
Problem compacted(const Problem& p) {
  constexpr int kFreeRows = 5;
  std::vector<std::vector<std::int32_t>> keys(p.n_kv_heads);
  Problem out = p;
  out.kv_len = 0;
  for (int head = 0; head < p.n_kv_heads; ++head) {
    for (int t = 0; t < p.q_start + p.q_len; ++t) {
      if (p.visible(head, std::max(t, p.q_start), t)) keys[head].push_back(t);
    }
    std::shuffle(keys[head].begin(), keys[head].end(), std::mt19937(45 + head));
    out.kv_len = std::max(out.kv_len, static_cast<int>(keys[head].size()) + kFreeRows);
  }
  const std::size_t rows = static_cast<std::size_t>(p.n_kv_heads) * out.kv_len;
  out.k.assign(rows * p.head_dim, NAN);
  out.v.assign(rows * p.head_dim, NAN);
  out.position.assign(rows, 0);
  out.evict_at.assign(rows, 0);
  for (int head = 0; head < p.n_kv_heads; ++head) {
    for (std::size_t i = 0; i < keys[head].size(); ++i) {
      const int t = keys[head][i];
      const std::size_t row = head * static_cast<std::size_t>(out.kv_len) + i + (i >= 3 ? kFreeRows : 0);
      const std::size_t from = (static_cast<std::size_t>(t) * p.n_kv_heads + head) * p.head_dim;
      out.position[row] = t;
      out.evict_at[row] = p.evict_at.empty() ? kNever : p.evict_at[head * p.kv_len + t];
      std::copy_n(p.k.begin() + from, p.head_dim, out.k.begin() + row * p.head_dim);
      std::copy_n(p.v.begin() + from, p.head_dim, out.v.begin() + row * p.head_dim);
    }
  }
  return out;
}

void check_problem(Backend backend, const Problem& p) {
  const Result expected = run(Backend::reference, p, DType::f32);
  const Result plain = naive(p);
  const Result found = run(backend, p, p.dtype);
  CHECK(max_error(found.o, expected.o) <= allowed_error(max_error(plain.o, expected.o), expected.o, p.dtype));
  CHECK(max_error(found.lse, expected.lse) <=
        allowed_error(max_error(plain.lse, expected.lse), expected.lse, DType::f32));
}

/// Lengths around tile borders, chunks that begin anywhere, every head_dim, GQA, every kind of lifetime.
void check_shapes(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int head_dim = GENERATE(64, 80, 96, 128, 192, 256);
  const auto kind = GENERATE(Lifetimes::causal, Lifetimes::window, Lifetimes::random);
  const auto [q_start, q_len, spare] =
      GENERATE(table<int, int, int>({{0, 1, 0}, {0, 63, 0}, {0, 64, 1}, {0, 65, 0}, {3, 130, 70}, {150, 1, 0}}));
  CAPTURE(head_dim, q_start, q_len, spare, static_cast<int>(kind), static_cast<int>(dtype));
  Problem p = random_problem(q_start, q_len, spare, 4, 2, head_dim, dtype);
  set_lifetimes(p, kind);
  check_problem(backend, p);
}

void check_groups(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int group_size = GENERATE(1, 2, 4, 8);
  const int n_kv_heads = GENERATE(1, 3);
  CAPTURE(group_size, n_kv_heads, static_cast<int>(dtype));
  Problem p = random_problem(10, 70, 0, group_size * n_kv_heads, n_kv_heads, 64, dtype);
  set_lifetimes(p, Lifetimes::random);
  check_problem(backend, p);
}

void check_identities(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  Problem p = random_problem(0, 150, 0, 4, 2, 64, dtype);
  const Result dense = run(backend, p, dtype);

  Problem kept = p;
  set_lifetimes(kept, Lifetimes::never);
  CHECK(run(backend, kept, dtype).o == dense.o);  // the same keys in the same tiles: the same bits
  CHECK(run(backend, kept, dtype).lse == dense.lse);

  Problem wide = p;
  set_lifetimes(wide, Lifetimes::window, p.q_len);
  CHECK(run(backend, wide, dtype).o == dense.o);

  Problem evicted = p;
  set_lifetimes(evicted, Lifetimes::all_evicted);
  CHECK(run(backend, evicted, dtype).o == std::vector<float>(p.q.size(), 0.0f));
  CHECK(run(backend, evicted, dtype).lse == std::vector<float>(dense.lse.size(), -INFINITY));

  Problem own = p;
  set_lifetimes(own, Lifetimes::window, 1);  // a query sees itself alone: the softmax of one is 1
  for (int row = 0; row < p.q_len; ++row) {
    for (int i = 0; i < 64; ++i) {  // for head 0 at a logit near -250: exp of it is 0 in float32, its weight is still 1
      own.k[row * 2 * 64 + i] = -8 * own.q[row * 4 * 64 + i];
    }
  }
  const Result itself = run(backend, own, dtype);
  for (int row = 0; row < p.q_len; ++row) {
    for (int head = 0; head < 4; ++head) {
      for (int i = 0; i < 64; ++i) {
        REQUIRE(itself.o[(row * 4 + head) * 64 + i] == p.v[(row * 2 + head / 2) * 64 + i]);
      }
    }
  }
}

/// Scores have a deviation of 2: a cap of 3 bends many of them, and sinks of that deviation take a good part of a row.
void check_variants(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int head_dim = GENERATE(64, 80, 96, 128, 192, 256);
  const auto [has_cap, has_sink] = GENERATE(table<bool, bool>({{true, false}, {false, true}, {true, true}}));
  const auto kind = GENERATE(Lifetimes::causal, Lifetimes::random, Lifetimes::all_evicted);
  const auto [q_start, q_len, spare] = GENERATE(table<int, int, int>({{0, 1, 0}, {0, 65, 0}, {3, 130, 70}}));
  CAPTURE(head_dim, has_cap, has_sink, q_start, q_len, static_cast<int>(kind), static_cast<int>(dtype));
  Problem p = random_problem(q_start, q_len, spare, 4, 2, head_dim, dtype);
  set_lifetimes(p, kind);
  if (has_cap) p.soft_cap = 3;
  if (has_sink) p.sink = random_normal(p.n_heads, 46, 2);
  check_problem(backend, p);
}

/// c tanh(s / c) = s (1 - (s / c)^2 / 3 ...): for |s| < 20 this cap is none, but for five roundings (division, tanh with
/// three, product), each of at most 20 / 2^24. A weight is off by as much, relatively, and so is a mean of values near 1.
constexpr float kWideCap = 1e5f;
constexpr double kWideCapError = 5 * 20 * 0x1p-24;

void check_variant_identities(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  Problem p = random_problem(1, 150, 0, 4, 2, 64, dtype);
  const Result plain = run(backend, p, dtype);
  const auto check_same = [&](const Result& found, double error) {  // 0: the same bits
    CHECK(max_error(found.o, plain.o) <= error + (error == 0 ? 0 : allowed_error(0, plain.o, dtype)));
    CHECK(max_error(found.lse, plain.lse) <= error + (error == 0 ? 0 : allowed_error(0, plain.lse, DType::f32)));
  };
  Problem no_sink = p;
  no_sink.sink.assign(4, -INFINITY);
  check_same(run(backend, no_sink, dtype), backend == Backend::cuda ? 0x1p-24 : 0);  // there another instance: as exact

  Problem wide = p;
  wide.soft_cap = kWideCap;
  check_same(run(backend, wide, dtype), kWideCapError);

  // A sink of 0 is a key of zeros without a value, which every query sees.
  p.soft_cap = GENERATE(0.0f, 3.0f);
  std::fill_n(p.k.begin(), 2 * 64, 0.0f);
  std::fill_n(p.v.begin(), 2 * 64, 0.0f);
  Problem with_sink = p;
  set_lifetimes(with_sink, Lifetimes::never);
  for (int head = 0; head < 2; ++head) with_sink.evict_at[head * p.kv_len] = 0;
  with_sink.sink.assign(4, 0.0f);
  const Result exact = run(Backend::reference, p, DType::f32), rounded = naive(p);
  const Result found = run(backend, with_sink, dtype);
  CHECK(max_error(found.o, exact.o) <= allowed_error(max_error(rounded.o, exact.o), exact.o, dtype));
  CHECK(max_error(found.lse, exact.lse) <= allowed_error(max_error(rounded.lse, exact.lse), exact.lse, DType::f32));
}

/// Keys of a cache, in any order and each head its own, give what the keys of the text give.
void check_compact(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const auto [head_dim, group_size] =
      GENERATE(table<int, int>({{64, 1}, {64, 7}, {80, 4}, {128, 1}, {128, 4}, {192, 7}, {256, 4}}));
  const auto kind = GENERATE(Lifetimes::causal, Lifetimes::window, Lifetimes::random, Lifetimes::all_evicted);
  // Tiles of the CPU version have 32 queries, those of the CUDA version up to 128; the reference costs their square.
  const int most = backend == Backend::cuda ? 300 : 100;
  const auto [q_start, q_len] = GENERATE_COPY(table<int, int>({{0, 1}, {700, 1}, {700, 40}, {3, most}}));
  CAPTURE(head_dim, group_size, q_start, q_len, static_cast<int>(kind), static_cast<int>(dtype));
  Problem p = random_problem(q_start, q_len, 0, group_size * 2, 2, head_dim, dtype);
  set_lifetimes(p, kind);
  const Result expected = run(Backend::reference, p, DType::f32), plain = naive(p);
  const Result found = run(backend, compacted(p), dtype);
  CHECK(max_error(found.o, expected.o) <= allowed_error(max_error(plain.o, expected.o), expected.o, dtype));
  CHECK(max_error(found.lse, expected.lse) <=
        allowed_error(max_error(plain.lse, expected.lse), expected.lse, DType::f32));
}

/// Queries in chunks equal all queries at once, row by row.
void check_chunks(Backend backend) {
  Problem p = random_problem(0, 140, 0, 2, 1, 64, DType::f32);
  set_lifetimes(p, Lifetimes::random);
  const Result whole = run(backend, p, DType::f32);
  const int chunk = GENERATE(1, 33, 64);
  for (int begin = 0; begin < p.q_len; begin += chunk) {
    Problem part = p;
    part.q_start = begin;
    part.q_len = std::min(chunk, p.q_len - begin);
    part.q.assign(p.q.begin() + begin * 128, p.q.begin() + (begin + part.q_len) * 128);
    const std::vector<float> expected(whole.o.begin() + begin * 128, whole.o.begin() + (begin + part.q_len) * 128);
    // Only the order of sums may differ: a few units of the last place of values near 1.
    CHECK(max_error(run(backend, part, DType::f32).o, expected) < 2e-6);
  }
}

}  // namespace

TEST_CASE("lifetime_attention: the reference is softmax attention over an explicit matrix",
          "[kernels][lifetime_attention]") {
  Problem p = random_problem(0, 37, 0, 2, 2, 16, DType::f32);
  set_lifetimes(p, GENERATE(Lifetimes::causal, Lifetimes::window, Lifetimes::random));
  const Result result = run(Backend::reference, p, DType::f32);
  for (int head = 0; head < 2; ++head) {
    for (int row = 0; row < p.q_len; ++row) {
      std::vector<double> weight(p.kv_len, 0.0);
      double total = 0;
      for (int t = 0; t < p.kv_len; ++t) {
        double logit = 0;
        for (int i = 0; i < 16; ++i) {
          logit += static_cast<double>(p.q[(row * 2 + head) * 16 + i]) * p.k[(t * 2 + head) * 16 + i];
        }
        if (p.visible(head, row, t)) weight[t] = std::exp(logit / 4);
        total += weight[t];
      }
      CHECK(result.lse[head * p.q_len + row] == Approx(std::log(total)).margin(1e-6));
      for (int i = 0; i < 16; ++i) {
        double sum = 0;
        for (int t = 0; t < p.kv_len; ++t) sum += weight[t] / total * p.v[(t * 2 + head) * 16 + i];
        CHECK(result.o[(row * 2 + head) * 16 + i] == Approx(sum).margin(1e-6));
      }
    }
  }
}

TEST_CASE("lifetime_attention: keeping everything, or a window as long as the sequence, is dense attention",
          "[kernels][lifetime_attention]") {
  check_identities(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("lifetime_attention: chunks of queries give what all queries at once give", "[kernels][lifetime_attention]") {
  check_chunks(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("lifetime_attention: the CPU version is as exact as a plain one", "[kernels][lifetime_attention]") {
  check_shapes(Backend::cpu);
}

TEST_CASE("lifetime_attention: the CPU version of a soft cap and a sink is as exact as a plain one",
          "[kernels][lifetime_attention][variant]") {
  check_variants(Backend::cpu);
}

TEST_CASE("lifetime_attention: a wide cap and a sink of -inf are none, another sink is a key without a value",
          "[kernels][lifetime_attention][variant]") {
  check_variant_identities(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("lifetime_attention: on CUDA a soft cap and a sink are as exact as a plain version",
          "[kernels][lifetime_attention][variant][cuda]") {
  if (skip_without_device()) return;
  check_variants(Backend::cuda);
}

TEST_CASE("lifetime_attention: on CUDA a wide cap and a sink of -inf are none, another sink is a key without a value",
          "[kernels][lifetime_attention][variant][cuda]") {
  if (skip_without_device()) return;
  check_variant_identities(Backend::cuda);
}

TEST_CASE("lifetime_attention: the CPU version serves every group size", "[kernels][lifetime_attention]") {
  check_groups(Backend::cpu);
}

TEST_CASE("lifetime_attention: the order of a cache's keys means nothing, and its free rows are not read",
          "[kernels][lifetime_attention]") {
  check_compact(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("lifetime_attention: on CUDA the order of a cache's keys means nothing, and its free rows are not read",
          "[kernels][lifetime_attention][cuda]") {
  if (skip_without_device()) return;
  check_compact(Backend::cuda);
}

TEST_CASE("lifetime_attention: on CUDA keeping everything, or a window as long as the sequence, is dense attention",
          "[kernels][lifetime_attention][cuda]") {
  if (skip_without_device()) return;
  check_identities(Backend::cuda);
}

TEST_CASE("lifetime_attention: on CUDA chunks of queries give what all queries at once give",
          "[kernels][lifetime_attention][cuda]") {
  if (skip_without_device()) return;
  check_chunks(Backend::cuda);
}

TEST_CASE("lifetime_attention: the CUDA version is as exact as a plain one", "[kernels][lifetime_attention][cuda]") {
  if (skip_without_device()) return;
  check_shapes(Backend::cuda);
}

TEST_CASE("lifetime_attention: the CUDA version serves every group size", "[kernels][lifetime_attention][cuda]") {
  if (skip_without_device()) return;
  check_groups(Backend::cuda);
}
