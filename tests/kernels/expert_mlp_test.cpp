#include "kernels/expert_mlp.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

constexpr float kEps = 1e-6f;

struct Problem {
  int n_tokens, n_experts, n_chosen, dim, ff;
  DType dtype;
  std::vector<float> x, norm_weight, gate_up, down, weight;
  std::vector<std::int32_t> expert;
  bool is_biased = false;
  GluActivation gate = GluActivation::silu;
  std::vector<float> gate_up_bias = {}, down_bias = {};
};

/// Token t goes through n_chosen neighbouring experts, of which some are those of its neighbours.
Problem random_problem(int n_tokens, int n_experts, int n_chosen, int dim, int ff, DType dtype) {
  Problem p = {n_tokens, n_experts, n_chosen, dim, ff, dtype};
  const auto size = [](int a, int b, int c = 1) { return static_cast<std::size_t>(a) * b * c; };
  p.x = random_normal(size(n_tokens, dim), 41, 2);
  p.norm_weight = rounded(random_normal(dim, 42), dtype);
  p.gate_up = rounded(random_normal(size(n_experts, 2 * ff, dim), 43, 1 / std::sqrt(static_cast<float>(dim))), dtype);
  p.down = rounded(random_normal(size(n_experts, dim, ff), 44, 1 / std::sqrt(static_cast<float>(ff))), dtype);
  // Every other problem is one of gpt-oss.
  p.is_biased = (dim + ff + n_chosen) % 2 == 1;
  p.gate = p.is_biased ? GluActivation::clamped : GluActivation::silu;
  p.gate_up_bias = rounded(random_normal(size(n_experts, 2 * ff), 45, 4), dtype);
  p.down_bias = rounded(random_normal(size(n_experts, dim), 46), dtype);
  for (int t = 0; t < n_tokens; ++t) {
    std::vector<std::int32_t> chosen;
    for (int i = 0; i < n_chosen; ++i) chosen.push_back((3 * t + i) % n_experts);
    std::sort(chosen.begin(), chosen.end());
    p.expert.insert(p.expert.end(), chosen.begin(), chosen.end());
    for (int i = 0; i < n_chosen; ++i) p.weight.push_back(static_cast<float>(1 + (t + i) % 3) / 4);
  }
  return p;
}

/// `dtype` may be f32 for a bf16 problem: the same numbers, nothing rounded.
std::vector<float> run(Backend backend, const Problem& p, DType dtype) {
  Memory memory(backend);
  float* x = memory.put(p.x);
  const ExpertMlpArgs args = {
      .x = x,
      .norm_weight = memory.put(pack(p.norm_weight, dtype)),
      .gate_up = memory.put(pack(p.gate_up, dtype)),
      .down = memory.put(pack(p.down, dtype)),
      .expert = memory.put(p.expert),
      .weight = memory.put(p.weight),
      .activation = memory.put(poison(static_cast<std::size_t>(p.n_tokens) * p.n_chosen * p.ff, dtype)),
      .out = x,
      .n_tokens = p.n_tokens,
      .n_chosen = p.n_chosen,
      .dim = p.dim,
      .ff = p.ff,
      .eps = kEps,
      .dtype = dtype,
      .gate = p.gate,
      .gate_up_bias = p.is_biased ? memory.put(pack(p.gate_up_bias, dtype)) : nullptr,
      .down_bias = p.is_biased ? memory.put(pack(p.down_bias, dtype)) : nullptr};
  expert_mlp(args, {backend});
  return memory.get(x);
}

/// One float after the other, rounded to the dtype wherever separate tensor operations would round.
std::vector<float> naive(const Problem& p) {
  const auto round = [&](float value) { return rounded(value, p.dtype); };
  std::vector<float> out = p.x;
  for (int t = 0; t < p.n_tokens; ++t) {
    std::vector<float> n(p.x.begin() + t * p.dim, p.x.begin() + (t + 1) * p.dim);
    float squares = 0;
    for (const float x : n) squares += x * x;
    const float inverse = 1 / std::sqrt(squares / static_cast<float>(p.dim) + kEps);
    for (int c = 0; c < p.dim; ++c) n[c] = round(round(n[c] * inverse) * p.norm_weight[c]);
    for (int i = 0; i < p.n_chosen; ++i) {
      const std::size_t e = p.expert[t * p.n_chosen + i];
      const auto product = [&](const std::vector<float>& w, const std::vector<float>& bias, std::size_t row,
                               const std::vector<float>& v) {
        float sum = 0;
        for (std::size_t c = 0; c < v.size(); ++c) sum += w[row * v.size() + c] * v[c];
        return round(p.is_biased ? round(sum) + bias[row] : sum);
      };
      std::vector<float> a(static_cast<std::size_t>(p.ff));
      for (int r = 0; r < p.ff; ++r) {
        const float gate = product(p.gate_up, p.gate_up_bias, e * 2 * p.ff + r, n);
        const float up = product(p.gate_up, p.gate_up_bias, e * 2 * p.ff + p.ff + r, n);
        if (p.gate == GluActivation::silu) {
          a[r] = round(round(gate / (1 + std::exp(-gate))) * up);
        } else {
          const float g = std::min(gate, 7.0f), sigmoid = round(1 / (1 + std::exp(-round(1.702f * g))));
          a[r] = round(round(g * sigmoid) * round(std::clamp(up, -7.0f, 7.0f) + 1));
        }
      }
      for (int r = 0; r < p.dim; ++r)
        out[t * p.dim + r] += round(p.weight[t * p.n_chosen + i] * product(p.down, p.down_bias, e * p.dim + r, a));
    }
  }
  return out;
}

void check_problem(Backend backend, const Problem& p) {
  CAPTURE(p.n_tokens, p.n_experts, p.n_chosen, p.dim, p.ff, static_cast<int>(p.dtype));
  const auto expected = run(Backend::reference, p, DType::f32);
  const auto found = run(backend, p, p.dtype);
  // Of few outputs the greatest naive error is a matter of luck: as many as 512 are asked, of the same sizes.
  const int n_tokens = std::max(p.n_tokens, (512 + p.dim - 1) / p.dim);
  const Problem tall = random_problem(n_tokens, p.n_experts, p.n_chosen, p.dim, p.ff, p.dtype);
  const auto tall_expected = run(Backend::reference, tall, DType::f32);
  CHECK(max_error(found, expected) <= allowed_error(max_error(naive(tall), tall_expected), tall_expected, DType::f32));
}

/// Sizes around chunks of 16 bytes, warps and blocks of rows.
void check_sizes(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int dim = GENERATE(1, 8, 30, 64, 130, 264, 1024);
  const int ff = GENERATE(1, 16, 33, 72, 192);
  check_problem(backend, random_problem(2, 5, 2, dim, ff, dtype));
}

void check_tokens(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int n_tokens = GENERATE(1, 2, 9, 33);
  const int n_chosen = GENERATE(1, 3, 8);
  check_problem(backend, random_problem(n_tokens, 8, n_chosen, 72, 40, dtype));
}

/// Rows of more than a CUDA lane asks for at once, and more experts than a block has warps.
void check_long_rows(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  check_problem(backend, random_problem(1, 5, 4, 2056, 1800, dtype));
  check_problem(backend, random_problem(2, 20, 18, 72, 2056, dtype));
}

void check_alone_or_among_others(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int dim = GENERATE(41, 256);
  const Problem all = random_problem(17, 16, 8, dim, 96, dtype);
  const auto together = run(backend, all, dtype);
  for (const int first : {0, 5, 16}) {
    Problem rest = all;
    rest.n_tokens = 17 - first;
    rest.x.erase(rest.x.begin(), rest.x.begin() + first * dim);
    rest.expert.erase(rest.expert.begin(), rest.expert.begin() + first * all.n_chosen);
    rest.weight.erase(rest.weight.begin(), rest.weight.begin() + first * all.n_chosen);
    const auto found = run(backend, rest, dtype);
    CHECK(std::memcmp(found.data(), together.data() + first * dim, found.size() * sizeof(float)) == 0);
  }
}

/// Experts that nothing chose may hold anything: they are not read.
void check_others_are_not_read(Backend backend) {
  Problem p = random_problem(2, 6, 2, 64, GENERATE(32, 33), DType::bf16);
  p.expert = {1, 4, 1, 4};
  const auto expected = run(backend, p, p.dtype);
  for (const int e : {0, 2, 3, 5}) {
    std::fill_n(p.gate_up.begin() + e * 2 * p.ff * p.dim, 2 * p.ff * p.dim, NAN);
    std::fill_n(p.down.begin() + e * p.dim * p.ff, p.dim * p.ff, NAN);
    std::fill_n(p.gate_up_bias.begin() + e * 2 * p.ff, 2 * p.ff, NAN);
    std::fill_n(p.down_bias.begin() + e * p.dim, p.dim, NAN);
  }
  CHECK(run(backend, p, p.dtype) == expected);
}

/// The same expert twice with half the weight each is the expert once.
void check_weights_add_up(Backend backend) {
  Problem once = random_problem(1, 3, 1, 64, 32, DType::f32), twice = once;
  once.expert = {2};
  once.weight = {1};
  twice.n_chosen = 2;
  twice.expert = {2, 2};
  twice.weight = {0.5f, 0.5f};
  CHECK(run(backend, twice, DType::f32) == run(backend, once, DType::f32));  // halves are exact
  once.weight = {0};
  CHECK(run(backend, once, DType::f32) == once.x);
}

}  // namespace

TEST_CASE("expert_mlp: is as exact as plain products at every size", "[kernels][experts]") {
  check_sizes(Backend::cpu);
}

TEST_CASE("expert_mlp: is as exact for one token and expert as for many", "[kernels][experts]") {
  check_tokens(Backend::cpu);
}

TEST_CASE("expert_mlp: is as exact for long rows", "[kernels][experts]") { check_long_rows(Backend::cpu); }

TEST_CASE("expert_mlp: a token gives the same bits alone or among others", "[kernels][experts]") {
  check_alone_or_among_others(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("expert_mlp: reads no expert that was not chosen", "[kernels][experts]") {
  check_others_are_not_read(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("expert_mlp: weights of an expert add up, and weight 0 adds nothing", "[kernels][experts]") {
  check_weights_add_up(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("expert_mlp: refuses what does not fit, by name and value", "[kernels][experts][validate]") {
  float x[16] = {};
  std::int32_t e[2] = {};
  ExpertMlpArgs args = {.x = x,
                        .norm_weight = x,
                        .gate_up = x,
                        .down = x,
                        .expert = e,
                        .weight = x,
                        .activation = x,
                        .out = x,
                        .n_tokens = 1,
                        .n_chosen = 65,
                        .dim = 2,
                        .ff = 2,
                        .dtype = DType::f32};
  CHECK_THROWS_WITH(expert_mlp(args, {}), "expert_mlp: n_chosen is 65; expected 1 ... 64");
  args.n_chosen = 1;
  args.dim = kMaxExpertDim + 1;
  CHECK_THROWS_WITH(expert_mlp(args, {}), "expert_mlp: dim is 16385; expected 1 ... 16384");
  args.dim = 2;
  args.expert = nullptr;
  CHECK_THROWS_WITH(expert_mlp(args, {Backend::reference}), "expert_mlp: expert is null");
}

TEST_CASE("expert_mlp: on CUDA is as exact as plain products", "[kernels][experts][cuda]") {
  if (skip_without_device()) return;
  SECTION("at every size") { check_sizes(Backend::cuda); }
  SECTION("for every number of tokens and experts") { check_tokens(Backend::cuda); }
  SECTION("for long rows and many experts") { check_long_rows(Backend::cuda); }
  SECTION("with the same bits alone or among others") { check_alone_or_among_others(Backend::cuda); }
  SECTION("without reading other experts") { check_others_are_not_read(Backend::cuda); }
  SECTION("with weights that add up") { check_weights_add_up(Backend::cuda); }
}
