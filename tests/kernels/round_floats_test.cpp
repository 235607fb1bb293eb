#include "kernels/round_floats.h"

#include <catch2/catch.hpp>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

std::vector<float> run(Backend backend, const std::vector<float>& x, DType dtype) {
  Memory memory(backend);
  auto* out = memory.put(poison(x.size(), dtype));
  round_floats({.x = memory.put(x), .out = out, .n = std::ssize(x), .dtype = dtype}, {backend});
  return unpack(memory.get(out), dtype);
}

void check_numbers(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const std::size_t n = GENERATE(1u, 7u, 256u, 257u, 5000u);
  CAPTURE(n, static_cast<int>(dtype));
  const std::vector<float> x = random_normal(n, 71, 3);
  CHECK(run(backend, x, dtype) == rounded(x, dtype));  // one rounding: the same bits
}

}  // namespace

TEST_CASE("round_floats: float32 stays, bfloat16 is the nearest number, of two the even one",
          "[kernels][round_floats]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  const std::vector<float> x = {1, -2.5f, 0x1.01p0f, 0x1.03p0f, 0x1.0101p0f};
  CHECK(run(backend, x, DType::f32) == x);
  CHECK(run(backend, x, DType::bf16) == std::vector<float>{1, -2.5f, 1, 0x1.04p0f, 0x1.02p0f});
}

TEST_CASE("round_floats: reference and CPU round every number once", "[kernels][round_floats]") {
  check_numbers(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("round_floats: CUDA rounds every number once", "[kernels][round_floats][cuda]") {
  if (skip_without_device()) return;
  check_numbers(Backend::cuda);
}

TEST_CASE("round_floats: refuses a missing pointer by name", "[kernels][round_floats][validate]") {
  float x = 0;
  CHECK_THROWS_WITH(round_floats({.x = &x, .out = nullptr, .n = 1, .dtype = DType::f32}, {}),
                    "round_floats: out is null");
}
