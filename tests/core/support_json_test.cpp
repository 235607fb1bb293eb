// JSON from strangers: what is refused, where, and what the getters let through.
#include <catch2/catch.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

using kvscope::JsonObject;
using kvscope::parse_json;
using kvscope::test::error_of;

namespace {

std::string parse_error(std::string_view text) {
  return error_of([&] { parse_json(text, "f.json"); });
}

}  // namespace

TEST_CASE("Strict JSON parses to the values that nlohmann's own parser gives") {
  const std::string text =
      R"({"a": [1, -2, 3.5, true, null, "x\u00e9"], "b": {"c": {}, "d": []}, "e": 18446744073709551615})";
  CHECK(parse_json(text, "f") == nlohmann::json::parse(text));
  CHECK(parse_json("7", "f") == 7);
  CHECK(parse_json("[[], [[]], {}]", "f") == nlohmann::json::parse("[[], [[]], {}]"));
}

TEST_CASE("Malformed JSON is refused with its line and column") {
  struct Case {
    std::string text, place, reason;
  };
  const auto c = GENERATE(values<Case>({
      {"{\n  \"a\": 1,\n  \"a\": 2\n}", "line 3, column 5", "key \"a\" twice"},
      {"[1, 2,]", "line 1, column 7", "unexpected ']'"},
      {"{\"a\": NaN}", "line 1, column 7", "invalid literal"},
      {"{} x", "line 1, column 4", "invalid literal"},
      {"[1] [2]", "line 1, column 5", "expected end of input"},
      {"// c\n{}", "line 1, column 1", "not valid JSON"},
      {"[\"\xff\"]", "line 1, column 3", "UTF-8"},
      {"[\"\\ud800\"]", "line 1", "surrogate"},
      {"[\"a\nb\"]", "line 1", "control character"},
      {"[1e400]", "line 1", "number overflow"},
      {"\xEF\xBB\xBF{}", "line 1, column 1", "byte order mark"},
      {std::string("{}\0", 3), "byte 2", "NUL"},
      {"", "line 1, column 1", "end of input"},
      {"{\"a\": 1", "line 1", "end of input"},
  }));
  const std::string line = parse_error(c.text);
  CAPTURE(c.text, line);
  CHECK(line.starts_with("f.json: " + c.place));
  CHECK_THAT(line, Catch::Contains(c.reason));
}

TEST_CASE("Equal keys are refused in one object only") {
  CHECK_NOTHROW(parse_json(R"({"a": {"a": 1, "b": {"a": 2}}, "b": [{"a": 1}, {"a": 1}]})", "f"));
  CHECK_THAT(parse_error(R"({"x": {"a": 1}, "a": 1, "y": {"b": 1, "b": 1}})"), Catch::Contains("key \"b\" twice"));
  CHECK_THAT(parse_error(R"({"a": 1, "\u0061": 2})"), Catch::Contains("key \"a\" twice"));
}

TEST_CASE("Nesting is refused past the cap and not before") {
  const std::string deep64 = std::string(64, '[') + std::string(64, ']');
  CHECK_NOTHROW(parse_json(deep64, "f"));
  CHECK_THAT(parse_error("[" + deep64 + "]"), Catch::Contains("deeper than 64"));
  CHECK_THAT(parse_error(std::string(1000000, '[')), Catch::Contains("deeper than 64"));
  CHECK_THAT(error_of([] { parse_json("{\"a\":{\"b\":{}}}", "f", {.max_depth = 2}); }),
             Catch::Contains("deeper than 2"));
}

TEST_CASE("Text and files larger than the cap are refused") {
  const kvscope::ReadLimits limits{.max_bytes = 10};
  CHECK_NOTHROW(parse_json("[1,2,3,44]", "f", limits));
  CHECK_THAT(error_of([&] { parse_json("[1,2,3,444]", "f", limits); }), Catch::Contains("11 bytes"));
  const kvscope::test::TempFolder folder;
  CHECK_THAT(error_of([&] { kvscope::read_json(folder.write("j", "[1,2,3,444]"), limits); }),
             Catch::Contains("11 bytes"));
}

TEST_CASE("More values than the cap are refused, keys among them") {
  const kvscope::ReadLimits limits{.max_elements = 5};
  CHECK_NOTHROW(parse_json("[1, 2, {\"a\": 3}]", "f", {.max_elements = 6}));
  CHECK_THAT(error_of([&] { parse_json("[1, 2, {\"a\": 3}]", "f", limits); }), Catch::Contains("more than 5 values"));
  std::string nulls = "[0";
  for (int i = 0; i < 3'000'000; ++i) nulls += ",0";
  CHECK_THAT(error_of([&] { parse_json(nulls + "]", "f", {.max_bytes = 16u << 20}); }),
             Catch::Contains("more than 1048576 values"));
}

TEST_CASE("A number longer than the cap is refused before it is read, and in a text it is none") {
  const std::string longest(1024, '7'), longer = longest + "7";
  CHECK(parse_json("[1, 0." + std::string(1000, '3') + "]", "f").size() == 2);
  CHECK_THAT(parse_error("[1,\n " + longer + "]"),
             Catch::Contains("line 2, column 2") && Catch::Contains("a number of more than 1024 bytes"));
  CHECK_THAT(parse_error(longest), !Catch::Contains("a number of more"));  // 1e1024 is another matter
  CHECK(parse_json("[\"" + longer + "\", \"\\\"" + longer + "\", 1]", "f")[1] == "\"" + longer);
  CHECK_THAT(parse_error("{\"a\": -1." + longer + "e5, \"a\""), Catch::Contains("a number of more than 1024 bytes"));
}

TEST_CASE("A web page and a Git LFS pointer in place of JSON are named") {
  const kvscope::test::TempFolder folder;
  const auto read = [&](std::string_view text) {
    return error_of([&] { kvscope::read_json(folder.write("config.json", text)); });
  };
  CHECK_THAT(read("\n<!DOCTYPE html><html>"), Catch::Contains("config.json: HTML page, not JSON"));
  CHECK_THAT(
      read("version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize 4900\n"),
      Catch::Contains("Git LFS pointer (oid 01234567, 4900 bytes), not JSON") && Catch::Contains("git lfs pull"));
}

TEST_CASE("Integers outside their range or of another type are refused, naming key, found and expected") {
  struct Case {
    std::string value, found;
  };
  const auto c = GENERATE(values<Case>({{"0", "0"},
                                        {"-1", "-1"},
                                        {"11", "11"},
                                        {"2147483648", "2147483648"},
                                        {"18446744073709551615", "18446744073709551615"},
                                        {"18446744073709551616", "1.8446744073709552e+19"},
                                        {"1.5", "1.5"},
                                        {"4.0", "4.0"},
                                        {"\"4\"", "\"4\""},
                                        {"true", "true"},
                                        {"null", "null"},
                                        {"[4]", "an array"},
                                        {"{}", "an object"}}));
  const auto json = parse_json("{\"n\": " + c.value + "}", "f.json");
  const std::string line = error_of([&] { JsonObject(json, "f.json", "outer").integer("n", 1, 10); });
  CHECK(line == "f.json: outer.n: " + c.found + "; expected an integer from 1 to 10");
}

TEST_CASE("Getters give what is there, and the fallback only for what is absent or null") {
  const auto json =
      parse_json(R"({"i": 10, "x": 0.5, "b": true, "t": "s", "z": null, "big": -9223372036854775808})", "f");
  const JsonObject o(json, "f");
  CHECK(o.integer("i", 1, 10) == 10);
  CHECK(o.integer("big", INT64_MIN, 0) == INT64_MIN);
  CHECK(o.integer_or("z", 3, 1, 10) == 3);
  CHECK(o.integer_or("none", 3, 1, 10) == 3);
  CHECK(o.number("x", 0, 1) == 0.5);
  CHECK(o.number("i", 0, 10) == 10);
  CHECK(o.number_or("none", 2, 0, 1) == 2);
  CHECK(o.boolean_or("b", false));
  CHECK(o.boolean_or("none", true));
  CHECK(o.text("t") == "s");
  CHECK(o.text_or("z", "d") == "d");
  CHECK(o.has("i"));
  CHECK_FALSE(o.has("z"));
  CHECK(error_of([&] { o.integer("none", 1, 2); }) == "f: none: missing; expected an integer from 1 to 2");
  CHECK(error_of([&] { o.number("x", 0.75, 1); }) == "f: x: 0.5; expected a number from 0.75 to 1");
  CHECK(error_of([&] { o.number("t", 0, 1); }) == "f: t: \"s\"; expected a number from 0 to 1");
  CHECK(error_of([&] { o.boolean_or("i", true); }) == "f: i: 10; expected true or false");
  CHECK(error_of([&] { o.text("i"); }) == "f: i: 10; expected text");
  CHECK(error_of([&] { o.text("z"); }) == "f: z: null; expected text");
  CHECK(error_of([&] { JsonObject(json["i"], "f", "i"); }) == "f: i: 10; expected an object");
}
