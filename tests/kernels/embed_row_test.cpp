#include "kernels/embed_row.h"

#include <catch2/catch.hpp>

#include "tests/kernels/backend.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

void check_rows(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const int dim = GENERATE(1, 7, 255, 256, 257, 1024);
  const float scale = GENERATE(1.0f, 25.25f);
  constexpr int kRows = 5;
  CAPTURE(dim, static_cast<int>(dtype));
  const auto table = rounded(random_normal(kRows * dim, 41), dtype);
  Memory memory(backend);
  std::vector<EmbedRowArgs> rows;
  for (std::int32_t id = 0; id < kRows; ++id) {
    rows.push_back({.table = memory.put(pack(table, dtype)),
                    .id = memory.put(std::vector<std::int32_t>{id}),
                    .out = memory.put(poison(dim)),
                    .n_rows = kRows,
                    .dim = dim,
                    .dtype = dtype,
                    .scale = scale});
  }
  const bool is_one_by_one = GENERATE(true, false);
  if (!is_one_by_one) embed_row(rows, {backend});
  for (std::int32_t id = 0; id < kRows; ++id) {
    if (is_one_by_one) embed_row(rows[id], {backend});
    std::vector<float> expected(table.begin() + id * dim, table.begin() + (id + 1) * dim);
    for (float& x : expected) x *= scale;
    CHECK(memory.get(rows[id].out) == expected);
  }
}

}  // namespace

TEST_CASE("embed_row: gives the row of an id, times the scale, bit for bit", "[kernels][embed_row]") {
  check_rows(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("embed_row: refuses a missing pointer by name", "[kernels][embed_row][validate]") {
  float x = 0;
  const EmbedRowArgs args = {.table = &x, .id = nullptr, .out = &x, .n_rows = 1, .dim = 1};
  CHECK_THROWS_WITH(embed_row(args, {}), "embed_row: id is null");
}

TEST_CASE("embed_row: on CUDA gives the row of an id, times the scale, bit for bit", "[kernels][embed_row][cuda]") {
  if (skip_without_device()) return;
  check_rows(Backend::cuda);
}
