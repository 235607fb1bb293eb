#include "kernels/mlstm_prompt.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

constexpr int kHeads = 2;

struct Problem {
  int n, head_dim = 64, delay = 16;
  int cut = 0;  // tokens of the first of two calls; 0: one call
  DType dtype = DType::f32;
  float soft_cap = 0;
  bool guarded = false, head_norm = false, softmax_map = false;
};

std::vector<float> scaled(std::size_t n, std::uint32_t seed, double variance) {
  return random_normal(n, seed, static_cast<float>(std::sqrt(variance)));
}

struct Result {
  std::vector<float> score;                     // [n, heads]
  std::vector<float> c, z, m, queries, direct;  // the memory after the last token
};

/// Keys and values lie in rows of three, as in the QKV product: q, k, v.
Result run(Backend backend, const Problem& p) {
  Memory memory(backend);
  const std::size_t d = p.head_dim, columns = (p.softmax_map ? 3 : 2) * d + 3, heads = kHeads, row = 3 * heads * d;
  const auto zeros = [&](std::size_t n) { return memory.put(std::vector<float>(n, 0.0f)); };
  const std::size_t ring = heads * static_cast<std::size_t>(p.delay);
  MlstmScorerView s = {.project = memory.put(scaled(heads * 2 * d * columns, 71, 1.0 / static_cast<double>(d))),
                       .bias = memory.put(random_normal(heads * 3, 72)),
                       .read = memory.put(scaled(heads * d, 73, 4.0 / static_cast<double>(d))),
                       .norm = p.head_norm ? memory.put(random_normal(heads * d, 75)) : nullptr,
                       .c = zeros(heads * d * d),
                       .z = zeros(heads * d),
                       .m = memory.put(std::vector<float>(heads, -INFINITY)),
                       .queries = p.delay > 0 ? zeros(ring * d) : nullptr,
                       .direct = p.delay > 0 ? zeros(ring) : nullptr,
                       .delay = p.delay,
                       .soft_cap = p.soft_cap,
                       .norm_eps = 1e-3f,  // so large that a test sees it
                       .guarded = p.guarded,
                       .softmax_map = p.softmax_map};
  const auto n_tokens = static_cast<std::size_t>(p.n);
  const std::byte* qkv = memory.put(pack(random_normal(n_tokens * row, 74), p.dtype));
  Result result;
  result.score.resize(n_tokens * heads);
  for (int first = 0; first < p.n;) {
    const int n = first == 0 && p.cut > 0 ? p.cut : p.n - first;
    const auto at = [&](std::size_t element) { return element_at(qkv, static_cast<std::int64_t>(element), p.dtype); };
    MlstmPromptArgs args = {.scorer = s,
                            .k = at(static_cast<std::size_t>(first) * row + heads * d),
                            .v = at(static_cast<std::size_t>(first) * row + 2 * heads * d),
                            .k_stride = static_cast<std::int64_t>(row),
                            .v_stride = static_cast<std::int64_t>(row),
                            .first = first,
                            .n = n,
                            .score = memory.put(poison(heads * static_cast<std::size_t>(n))),
                            .scratch = nullptr,
                            .n_kv_heads = kHeads,
                            .head_dim = p.head_dim,
                            .dtype = p.dtype};
    args.scratch = memory.put(poison(static_cast<std::size_t>(mlstm_prompt_scratch_floats(args))));
    mlstm_prompt(args, {backend});
    const std::vector<float> part = memory.get(args.score);
    for (int i = 0; i < n; ++i)
      for (int head = 0; head < kHeads; ++head) result.score[(first + i) * kHeads + head] = part[head * n + i];
    first += n;
  }
  result.c = memory.get(s.c);
  result.z = memory.get(s.z);
  result.m = memory.get(s.m);
  if (p.delay > 0) result.queries = memory.get(s.queries), result.direct = memory.get(s.direct);
  return result;
}

/// Greatest difference of the numbers; the same cells are NaN.
double difference(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  double error = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i, found[i], expected[i]);
    REQUIRE(std::isnan(found[i]) == std::isnan(expected[i]));
    if (!std::isnan(found[i])) error = std::max(error, std::abs(static_cast<double>(found[i]) - expected[i]));
  }
  return error;
}

/// Scores are of size one to ten, sums of float32 over 2,048 tokens at most. The memory is in units of exp(m), and so is
/// the rounding of m, which sums 2,048 gates: some 2^-24 x 2,048 x |log f|.
void check_same(const Result& found, const Result& expected, int n) {
  CHECK(difference(found.score, expected.score) < 1e-4);
  CHECK(difference(found.m, expected.m) < 1e-4);
  CHECK(difference(found.c, expected.c) < 1e-4 * (1 + n / 256.0));
  CHECK(difference(found.z, expected.z) < 1e-4 * (1 + n / 256.0));
  CHECK(difference(found.queries, expected.queries) < 1e-6);
  CHECK(difference(found.direct, expected.direct) < 1e-4);
}

/// Shorter than a block, one, several and a part; delays shorter and longer than the text; cut where blocks do not end.
std::vector<Problem> problems() {
  std::vector<Problem> all;
  for (const int head_dim : {64, 128}) {
    for (const int n : {1, 70, 128, 300})
      for (const int delay : {0, 16, 64, 400}) all.push_back({.n = n, .head_dim = head_dim, .delay = delay});
    all.push_back({.n = 300, .head_dim = head_dim, .cut = 1});
    all.push_back({.n = 300, .head_dim = head_dim, .delay = 200, .cut = 131});
    all.push_back({.n = 200, .head_dim = head_dim, .dtype = DType::bf16, .soft_cap = 3});
    all.push_back({.n = 200, .head_dim = head_dim, .delay = 0, .cut = 77, .guarded = true});
    all.push_back({.n = 300, .head_dim = head_dim, .softmax_map = true});
    all.push_back({.n = 300, .head_dim = head_dim, .cut = 131, .head_norm = true});
    all.push_back({.n = 200,
                   .head_dim = head_dim,
                   .delay = 0,
                   .dtype = DType::bf16,
                   .guarded = true,
                   .head_norm = true,
                   .softmax_map = true});
  }
  return all;
}

void check_all(Backend backend) {
  for (const Problem& p : problems()) {
    CAPTURE(p.n, p.head_dim, p.delay, p.cut, static_cast<int>(p.dtype), p.soft_cap, p.guarded, p.head_norm,
            p.softmax_map);
    check_same(run(backend, p), run(Backend::reference, p), p.n);
  }
}

}  // namespace

TEST_CASE("mlstm_prompt: scores a text as its definition does, token by token", "[kernels][mlstm_prompt]") {
  check_all(Backend::cpu);
}

TEST_CASE("mlstm_prompt: on CUDA scores a text as its definition does", "[kernels][mlstm_prompt][cuda]") {
  if (skip_without_device()) return;
  check_all(Backend::cuda);
}

TEST_CASE("mlstm_prompt: on CUDA scores the longest text as the CPU does", "[kernels][mlstm_prompt][cuda]") {
  if (skip_without_device()) return;
  const int head_dim = GENERATE(64, 128);
  const Problem p = {
      .n = static_cast<int>(kMlstmPromptTokens), .head_dim = head_dim, .delay = 256, .dtype = DType::bf16};
  check_same(run(Backend::cuda, p), run(Backend::cpu, p), p.n);
}

TEST_CASE("mlstm_prompt: a text cut in two has the scores of the whole", "[kernels][mlstm_prompt]") {
  const int cut = GENERATE(1, 15, 16, 17, 69);
  Problem p = {.n = 70};
  const Result whole = run(Backend::cpu, p);
  p.cut = cut;
  const Result parts = run(Backend::cpu, p);
  CHECK(difference(parts.score, whole.score) == 0);
  CHECK(difference(parts.c, whole.c) == 0);
}

TEST_CASE("mlstm_prompt: what cannot be is refused by name", "[kernels][mlstm_prompt]") {
  float x = 0;
  MlstmPromptArgs args = {.scorer = {}, .k = &x, .v = &x, .k_stride = 64, .v_stride = 64, .first = 0, .n = 1};
  args.n_kv_heads = 1, args.head_dim = 64, args.dtype = DType::f32, args.score = &x, args.scratch = &x;
  CHECK_THROWS_WITH(mlstm_prompt(args, {}), "mlstm_prompt: project is null");
  args.v_stride = 63;
  CHECK_THROWS_WITH(mlstm_prompt(args, {}), "mlstm_prompt: v_stride is 63; expected 64 ... 9223372036854775807");
  args.v_stride = 66;
  CHECK_THROWS_WITH(mlstm_prompt(args, {}), "mlstm_prompt: v_stride is 66; expected a multiple of 8");
  args.n = kMlstmPromptTokens + 1;
  CHECK_THROWS_WITH(mlstm_prompt(args, {}), "mlstm_prompt: n is 2049; expected 0 ... 2048");
}
