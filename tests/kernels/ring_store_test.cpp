#include "kernels/ring_store.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "kernels/step_graph.h"
#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;
using Catch::Matchers::Contains;

namespace {

constexpr int kRows = 3;
constexpr int kSteps = 8;  // twice around and a bit

/// The ring after kSteps rows of n floats, first by first, over what was NaN.
std::vector<float> expected_ring(const std::vector<float>& rows, int n) {
  std::vector<float> ring = poison(static_cast<std::size_t>(kRows) * n);
  const int row_of_ring[kRows] = {6, 7, 5};  // tokens 6, 7 and 5 are the last three: 6 % 3 = 0
  for (int i = 0; i < kRows; ++i) std::copy_n(rows.begin() + row_of_ring[i] * n, n, ring.begin() + i * n);
  return ring;
}

void check_rows(Backend backend) {
  const int n = GENERATE(4, 64, 508, 516, 4096);
  CAPTURE(n);
  const auto rows = random_normal(static_cast<std::size_t>(kSteps) * n, 61);
  Memory memory(backend);
  float* ring = memory.put(poison(static_cast<std::size_t>(kRows) * n));
  for (std::int32_t step = 0; step < kSteps; ++step) {
    const RingStoreArgs args = {
        .row = memory.put(std::vector<float>(rows.begin() + step * n, rows.begin() + (step + 1) * n)),
        .ring = ring,
        .position = memory.put(std::vector<std::int32_t>{step}),
        .row_bytes = n * 4,
        .n_rows = kRows};
    ring_store(args, {backend});
  }
  CHECK(memory.get(ring) == expected_ring(rows, n));
}

}  // namespace

TEST_CASE("ring_store: the ring holds the rows of the last tokens, bit for bit", "[kernels][ring_store]") {
  check_rows(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("ring_store: one row is written and no other", "[kernels][ring_store]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  Memory memory(backend);
  float* ring = memory.put(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const RingStoreArgs args = {.row = memory.put(std::vector<float>{-1, -2, -3, -4}),
                              .ring = ring,
                              .position = memory.put(std::vector<std::int32_t>{3'000'001}),
                              .row_bytes = 16,
                              .n_rows = kRows};
  ring_store(args, {backend});
  CHECK(memory.get(ring) == std::vector<float>{1, 2, 3, 4, -1, -2, -3, -4, 9, 10, 11, 12});
}

TEST_CASE("ring_store: refuses part of 16 bytes, an empty ring and a missing pointer",
          "[kernels][ring_store][validate]") {
  float x[4] = {};
  const std::int32_t position = 0;
  CHECK_THROWS_WITH(ring_store({.row = x, .ring = x, .position = &position, .row_bytes = 24, .n_rows = 1}, {}),
                    "ring_store: row_bytes is 24; expected a multiple of 16");
  CHECK_THROWS_WITH(ring_store({.row = x, .ring = x, .position = &position, .row_bytes = 16, .n_rows = 0}, {}),
                    Contains("n_rows is 0; expected 1 ..."));
  CHECK_THROWS_WITH(ring_store({.row = x, .ring = x, .row_bytes = 16, .n_rows = 1}, {}),
                    "ring_store: position is null");
}

TEST_CASE("ring_store: on CUDA the ring holds the rows of the last tokens, bit for bit",
          "[kernels][ring_store][cuda]") {
  if (skip_without_device()) return;
  check_rows(Backend::cuda);
}

TEST_CASE("ring_store: one captured launch follows the position", "[kernels][ring_store][cuda]") {
  if (skip_without_device()) return;
  constexpr int kFloats = 256;
  const auto rows = random_normal(kSteps * kFloats, 62);
  DeviceBuffer row(kFloats * 4), ring(kRows * kFloats * 4), position(4);
  StepGraph graph;
  graph.capture([&](Place recording) {
    ring_store({.row = row.data(),
                .ring = ring.data(),
                .position = static_cast<const std::int32_t*>(position.data()),
                .row_bytes = kFloats * 4,
                .n_rows = kRows},
               recording);
  });
  for (std::int32_t step = 0; step < kSteps; ++step) {
    row.upload(rows.data() + step * kFloats);
    position.upload(&step);
    graph.launch(nullptr);
    wait_for(nullptr);
  }
  std::vector<float> found(kRows * kFloats);
  ring.download(found.data());
  CHECK(found == expected_ring(rows, kFloats));
}
