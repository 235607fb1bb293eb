#include "kernels/ring_convolve.h"

#include <catch2/catch.hpp>

#include "kernels/step_graph.h"
#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

/// A text of n_tokens rows that comes token by token.
struct Problem {
  int n_taps, dim, n_tokens;
  DType dtype;
  std::vector<float> rows, taps;
};

Problem random_problem(int n_taps, int dim, int n_tokens, DType dtype) {
  return {n_taps,
          dim,
          n_tokens,
          dtype,
          rounded(random_normal(static_cast<std::size_t>(n_tokens) * dim, 71), dtype),
          random_normal(static_cast<std::size_t>(n_taps) * dim, 72)};
}

std::vector<float> row_of(const Problem& p, int t) {
  return {p.rows.begin() + static_cast<std::ptrdiff_t>(t) * p.dim,
          p.rows.begin() + static_cast<std::ptrdiff_t>(t + 1) * p.dim};
}

/// What every token's step writes, [n_tokens, dim], over a ring that began as NaN.
std::vector<float> run(Backend backend, const Problem& p, DType dtype) {
  Memory memory(backend);
  auto* ring = memory.put(poison(static_cast<std::size_t>(p.n_taps) * p.dim, dtype));
  const float* taps = memory.put(p.taps);
  std::vector<float> all;
  for (std::int32_t t = 0; t < p.n_tokens; ++t) {
    auto* out = memory.put(poison(static_cast<std::size_t>(p.dim), dtype));
    const RingConvolveArgs args = {.row = memory.put(pack(row_of(p, t), dtype)),
                                   .ring = ring,
                                   .taps = taps,
                                   .out = out,
                                   .position = memory.put(std::vector<std::int32_t>{t}),
                                   .n_taps = p.n_taps,
                                   .dim = p.dim,
                                   .dtype = dtype};
    ring_convolve(args, {backend});
    const std::vector<float> one = unpack(memory.get(out), dtype);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// The sum over the text itself, without a ring, in float32.
std::vector<float> naive(const Problem& p) {
  std::vector<float> out;
  for (int t = 0; t < p.n_tokens; ++t) {
    for (int i = 0; i < p.dim; ++i) {
      float sum = 0;
      for (int j = 0; j < p.n_taps; ++j) {
        const int from = t - p.n_taps + 1 + j;
        if (from >= 0) sum += p.taps[static_cast<std::size_t>(j * p.dim + i)] * p.rows[from * p.dim + i];
      }
      out.push_back(rounded(sum, p.dtype));
    }
  }
  return out;
}

void check_sums(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int n_taps = GENERATE(1, 3, 16, 65);
  const int dim = GENERATE(1, 31, 32, 33, 128, 700);  // around a block's units and over a piece
  CAPTURE(n_taps, dim, static_cast<int>(dtype));
  const Problem p = random_problem(n_taps, dim, 2 * n_taps + 3, dtype);  // twice around and a bit
  const std::vector<float> expected = run(Backend::reference, p, DType::f32);
  CHECK(max_error(run(backend, p, dtype), expected) <= allowed_error(max_error(naive(p), expected), expected, dtype));
}

/// One tap that is 1: what comes out is the token so many before, bit for bit, and 0 before the first. In place.
void check_shift(Backend backend) {
  constexpr int kTaps = 5, kDim = 40;
  const int tap = GENERATE(0, 2, 4);
  CAPTURE(tap);
  const Problem p = random_problem(kTaps, kDim, 13, DType::bf16);
  std::vector<float> taps(kTaps * kDim, 0.0f);
  std::fill_n(taps.begin() + tap * kDim, kDim, 1.0f);
  Memory memory(backend);
  auto* ring = memory.put(poison(kTaps * kDim, p.dtype));
  for (std::int32_t t = 0; t < p.n_tokens; ++t) {
    auto* row = memory.put(pack(row_of(p, t), p.dtype));
    ring_convolve({.row = row,
                   .ring = ring,
                   .taps = memory.put(taps),
                   .out = row,
                   .position = memory.put(std::vector<std::int32_t>{t}),
                   .n_taps = kTaps,
                   .dim = kDim,
                   .dtype = p.dtype},
                  {backend});
    const int from = t - (kTaps - 1) + tap;
    CHECK(unpack(memory.get(row), p.dtype) == (from < 0 ? std::vector<float>(kDim, 0.0f) : row_of(p, from)));
  }
}

}  // namespace

TEST_CASE("ring_convolve: a single tap gives back the token so many before, and nothing before the first",
          "[kernels][ring_convolve]") {
  check_shift(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("ring_convolve: token by token it is the sum over the text", "[kernels][ring_convolve]") {
  check_sums(Backend::cpu);
}

TEST_CASE("ring_convolve: refuses no taps, no units and a missing pointer", "[kernels][ring_convolve][validate]") {
  float x[4] = {};
  const std::int32_t position = 0;
  RingConvolveArgs args = {
      .row = x, .ring = x, .taps = x, .out = x, .position = &position, .n_taps = 0, .dim = 1, .dtype = DType::f32};
  CHECK_THROWS_WITH(ring_convolve(args, {}), "ring_convolve: n_taps is 0; expected 1 ... 4095");
  args.n_taps = 1;
  args.dim = 0;
  CHECK_THROWS_WITH(ring_convolve(args, {}), "ring_convolve: dim is 0; expected 1 ... 1048576");
  args.dim = 1;
  args.taps = nullptr;
  CHECK_THROWS_WITH(ring_convolve(args, {}), "ring_convolve: taps is null");
}

TEST_CASE("ring_convolve: on CUDA a single tap gives back the token so many before", "[kernels][ring_convolve][cuda]") {
  if (skip_without_device()) return;
  check_shift(Backend::cuda);
}

TEST_CASE("ring_convolve: on CUDA token by token it is the sum over the text", "[kernels][ring_convolve][cuda]") {
  if (skip_without_device()) return;
  check_sums(Backend::cuda);
}

TEST_CASE("ring_convolve: one captured launch follows the position", "[kernels][ring_convolve][cuda]") {
  if (skip_without_device()) return;
  const Problem p = random_problem(7, 96, 20, DType::f32);
  DeviceBuffer row(96 * 4), ring(7 * 96 * 4), taps(7 * 96 * 4), out(96 * 4), position(4);
  taps.upload(p.taps.data());
  StepGraph graph;
  graph.capture([&](Place recording) {
    ring_convolve({.row = row.data(),
                   .ring = ring.data(),
                   .taps = static_cast<const float*>(taps.data()),
                   .out = out.data(),
                   .position = static_cast<const std::int32_t*>(position.data()),
                   .n_taps = 7,
                   .dim = 96,
                   .dtype = p.dtype},
                  recording);
  });
  std::vector<float> found;
  for (std::int32_t t = 0; t < p.n_tokens; ++t) {
    row.upload(row_of(p, t).data());
    position.upload(&t);
    graph.launch(nullptr);
    wait_for(nullptr);
    std::vector<float> one(96);
    out.download(one.data());
    found.insert(found.end(), one.begin(), one.end());
  }
  CHECK(found == run(Backend::cuda, p, p.dtype));
}
