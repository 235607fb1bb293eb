#include "kernels/xor_words.h"

#include <catch2/catch.hpp>
#include <random>

#include "tests/kernels/backend.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

void check_words(Backend backend) {
  const std::int64_t n = GENERATE(0, 1, 3, 64, 131) * static_cast<std::int64_t>(kXorTileWords);
  CAPTURE(n);
  std::mt19937 random(51);
  std::vector<std::uint32_t> words(static_cast<std::size_t>(n));
  std::uint32_t expected = 0;
  for (std::uint32_t& word : words) expected ^= word = static_cast<std::uint32_t>(random());
  Memory memory(backend);
  auto* out = memory.put(std::vector<std::uint32_t>{0xdeadbeefu});
  const XorWordsArgs args = {.data = memory.put(n > 0 ? words : std::vector<std::uint32_t>(4)), .out = out, .n = n};
  xor_words(args, {backend});
  CHECK(memory.get(out) == std::vector<std::uint32_t>{expected});
}

}  // namespace

TEST_CASE("xor_words: every word is read once", "[kernels][xor_words]") {
  check_words(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("xor_words: refuses a part of a tile", "[kernels][xor_words][validate]") {
  std::uint32_t word = 0;
  CHECK_THROWS_WITH(xor_words({.data = &word, .out = &word, .n = 1}, {}),
                    "xor_words: n is 1; expected a multiple of 8192");
}

TEST_CASE("xor_words: on CUDA every word is read once", "[kernels][xor_words][cuda]") {
  if (skip_without_device()) return;
  check_words(Backend::cuda);
}
