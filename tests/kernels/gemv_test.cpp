// Every instruction set that this machine has, not only the one that it would choose.
#include "kernels/cpu/gemv.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

constexpr int kMaxTokens = 8;

std::vector<float> products(const cpu::Gemv& gemv, DType dtype, const std::vector<float>& rows,
                            const std::vector<float>& x, int dim, int n_rows, int n_tokens) {
  Memory memory(
      Backend::cpu);  // blocks of exactly their size: AddressSanitizer and the loader see one element too many
  float* y = memory.put(poison(static_cast<std::size_t>(n_tokens) * n_rows));
  const auto* weight = memory.put(pack(rows, dtype));
  const bool narrow = dtype == DType::bf16 && gemv.narrow_vectors;
  const auto* vectors = memory.put(pack({x.begin(), x.begin() + n_tokens * dim}, narrow ? DType::bf16 : DType::f32));
  gemv.multiply(dtype, weight, 0, vectors, dim, n_rows, n_tokens, y, n_rows);
  return memory.get(y);
}

/// o += weights x rows for `n_tokens` vectors of weights, o beginning as `before`.
std::vector<float> combination(const cpu::Gemv& gemv, DType dtype, const std::vector<float>& rows,
                               const std::vector<float>& weights, int w_stride, const std::vector<float>& before,
                               int dim, int n_rows, int n_tokens) {
  Memory memory(Backend::cpu);
  float* o = memory.put(std::vector<float>(before.begin(), before.begin() + n_tokens * dim));
  const auto* data = memory.put(pack(rows, dtype));
  const float* w = memory.put(weights);
  gemv.add(dtype, data, 0, w, w_stride, dim, n_rows, n_tokens, o);
  return memory.get(o);
}

}  // namespace

TEST_CASE("gemv: every instruction set adds up weighted rows", "[kernels][cpu][gemv]") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int dim = GENERATE(1, 7, 16, 64, 72, 80, 96, 128, 600);
  const int n_rows = GENERATE(0, 1, 5, 16);
  const int w_stride = n_rows + 3;
  const auto rows = rounded(random_normal(n_rows * dim, 83), dtype);
  const auto weights = random_normal(kMaxTokens * w_stride, 84);
  const auto before = random_normal(kMaxTokens * dim, 85);
  for (const cpu::Gemv* gemv : cpu::available_gemv()) {
    const auto all = combination(*gemv, dtype, rows, weights, w_stride, before, dim, n_rows, kMaxTokens);
    CAPTURE(gemv->name, dim, n_rows, static_cast<int>(dtype));
    for (int t = 0; t < kMaxTokens; ++t) {
      for (int c = 0; c < dim; ++c) {
        double sum = before[t * dim + c];
        for (int r = 0; r < n_rows; ++r) sum += static_cast<double>(weights[t * w_stride + r]) * rows[r * dim + c];
        REQUIRE(all[t * dim + c] == Approx(sum).margin(1e-5));  // 17 terms of size 1, each rounded at 2^-24 of the sum
      }
    }
    for (int n_tokens = 1; n_tokens < kMaxTokens; ++n_tokens) {
      const auto few = combination(*gemv, dtype, rows, weights, w_stride, before, dim, n_rows, n_tokens);
      REQUIRE(std::memcmp(few.data(), all.data(), few.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("gemv: every instruction set gives the products of rows and vectors", "[kernels][cpu][gemv]") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int dim = GENERATE(1, 8, 15, 16, 17, 32, 47, 64, 513);
  const int n_rows = GENERATE(1, 2, 3, 7, 8, 9, 21);
  const auto rows = rounded(random_normal(n_rows * dim, 81), dtype);
  const auto x = rounded(random_normal(kMaxTokens * dim, 82), dtype);
  for (const cpu::Gemv* gemv : cpu::available_gemv()) {
    const auto all = products(*gemv, dtype, rows, x, dim, n_rows, kMaxTokens);
    CAPTURE(gemv->name, dim, n_rows, static_cast<int>(dtype));
    for (int t = 0; t < kMaxTokens; ++t) {
      for (int r = 0; r < n_rows; ++r) {
        double sum = 0;
        for (int c = 0; c < dim; ++c) sum += static_cast<double>(rows[r * dim + c]) * x[t * dim + c];
        // 513 products of size 1, whose sum is near 23, in at least four lanes: 130 roundings of 2^-24 of it.
        REQUIRE(all[t * n_rows + r] == Approx(sum).margin(1e-4));
      }
    }
    for (int n_tokens = 1; n_tokens < kMaxTokens; ++n_tokens) {
      const auto few = products(*gemv, dtype, rows, x, dim, n_rows, n_tokens);
      CAPTURE(n_tokens);
      REQUIRE(std::memcmp(few.data(), all.data(), few.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("gemv: the best instruction set comes first and the plain one is always there", "[kernels][cpu][gemv]") {
  const auto available = cpu::available_gemv();
  REQUIRE_FALSE(available.empty());
  CHECK(available.front() == &cpu::best_gemv());
  CHECK(std::string(available.back()->name) == "plain");
}
