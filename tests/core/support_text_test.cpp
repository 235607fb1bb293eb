#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "engine/core/support/hash.h"

using namespace kvscope;

TEST_CASE("text: numbers read as printf has them, in any locale", "[support]") {
  CHECK(number_text(0.1) == "0.1");
  CHECK(number_text(1e20) == "1e+20");
  CHECK(number_text(1.0 / 3, 3) == "0.333");
  CHECK(number_text(2e10, 10) == "2e+10");
  CHECK(number_text(64, 9) == "64");
  CHECK(fixed_text(0.5, 2) == "0.50");
  CHECK(fixed_text(-std::numeric_limits<double>::infinity(), 1) == "-inf");
  CHECK(fixed_text(std::numeric_limits<double>::max(), 3).size() == 313);
}

TEST_CASE("text: the time is of one form", "[support]") {
  const std::string now = utc_now();
  REQUIRE(now.size() == 20);
  CHECK(now[10] == 'T');
  CHECK(now.back() == 'Z');
}

TEST_CASE("hash: FNV-1a and splitmix64 give their published values", "[support]") {
  CHECK(hex_text(fnv1a64("")) == "cbf29ce484222325");
  CHECK(hex_text(fnv1a64("foobar")) == "85944171f73967e8");
  CHECK(split_mix(0) == 0xe220a8397b1dcdafu);
  Fnv1a bytes, word;
  bytes.add("a");
  word.add_word('a');
  CHECK(bytes.hex() == word.hex());
}

TEST_CASE("A number to be read is short, and no other whole number than it is") {
  CHECK(brief_number(131072) == "131072");
  CHECK(brief_number(0.5375) == "0.5375");
  CHECK(brief_number(0.999999) == "0.999999");
  CHECK(brief_number(13.0 / 15) == "0.8667");
  CHECK(brief_number(-2.0 / 3) == "-0.6667");
  CHECK(brief_number(0.99999123456) == "0.99999");
  CHECK(brief_number(-1) == "-1");
}
