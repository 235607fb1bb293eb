// Texts that end an answer, found across the borders of tokens.
#include <catch2/catch.hpp>
#include <random>

#include "engine/core/files/tokenizer/stop_strings.h"
#include "tests/support/expect_error.h"

using kvscope::StopStrings;

TEST_CASE("A stop string is found across the borders of tokens, and the answer ends before it") {
  StopStrings stops({"\n\n", "END"});
  CHECK_FALSE(stops.push("one\n"));
  CHECK(stops.sure_bytes() == 3);  // the line end may begin a stop string
  CHECK_FALSE(stops.push("E"));
  CHECK(stops.sure_bytes() == 4);
  CHECK_FALSE(stops.push("N"));
  CHECK(stops.push("D of it"));
  CHECK(stops.answer_bytes() == 4);
  CHECK(stops.sure_bytes() == 4);
  CHECK(stops.push("\n\n"));
  CHECK(stops.answer_bytes() == 4);
}

TEST_CASE("Of stop strings that one token completes, the one that begins first ends the answer") {
  StopStrings stops({"cd", "bcde"});
  CHECK(stops.push("abcdef"));
  CHECK(stops.answer_bytes() == 1);
}

TEST_CASE("Without stop strings everything is the answer") {
  StopStrings stops;
  CHECK_FALSE(stops.push("any\n\ntext"));
  CHECK(stops.answer_bytes() == 9);
  CHECK(stops.sure_bytes() == 9);
}

TEST_CASE("Random answers in random tokens end where a search in the whole text says") {
  std::mt19937 rng(11);
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> texts(1 + rng() % 3);
    for (auto& text : texts) {
      for (unsigned n = 1 + rng() % 5; n > 0; --n) text += static_cast<char>('a' + rng() % 2);
    }
    StopStrings stops(texts);
    std::string all;
    for (int token = 0; token < 12; ++token) {
      std::string bytes;
      for (unsigned n = rng() % 4; n > 0; --n) bytes += static_cast<char>('a' + rng() % 2);
      all += bytes;
      const std::size_t sure = stops.sure_bytes();
      const bool hit = stops.push(bytes);
      std::size_t first = std::string::npos;
      for (const auto& text : texts) first = std::min(first, all.find(text));
      REQUIRE(hit == (first != std::string::npos));
      REQUIRE(stops.answer_bytes() == (hit ? first : all.size()));
      REQUIRE(stops.answer_bytes() >= sure);  // nothing that was sure is taken back
      if (hit) {
        ++found;
        break;
      }
    }
  }
  CHECK(found > 1000);
}

TEST_CASE("Stop strings that cannot be are refused") {
  using kvscope::test::error_of;
  CHECK(error_of([] { StopStrings({"a", ""}); }) == "stop: an empty text; expected at least one byte");
  CHECK(error_of([] { StopStrings({std::string(5000, 'x')}); }) == "stop: a text of 5000 bytes; expected at most 4096");
  CHECK(error_of([] { StopStrings(std::vector<std::string>(65, "x")); }) == "stop: 65 texts; expected at most 64");
}
