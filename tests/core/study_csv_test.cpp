#include "engine/core/study/table/study_csv.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/expect_error.h"

namespace kvscope {
namespace {

TEST_CASE("a study's table in text, read, is written as the same text", "[study]") {
  const std::string text = "policy,nll,flops\n\"a, b\",2.5,1e+20\n\"say \"\"so\"\"\",,2\n";
  const StudyTable table = parse_study_csv(text, "t.csv");
  CHECK(table.columns[0].texts == std::vector<std::string>{"a, b", "say \"so\""});
  CHECK(table.numbers("flops", "") == std::vector<double>{1e20, 2});
  CHECK(std::isnan(table.numbers("nll", "")[1]));
  CHECK(study_csv(table) == text);
}

TEST_CASE("lines may end as on Windows, and the last may have no end", "[study]") {
  const StudyTable table = parse_study_csv("a,b\r\n1,x\r\n2,y", "t.csv");
  CHECK(table.numbers("a", "") == std::vector<double>{1, 2});
  CHECK(table.texts("b", "") == std::vector<std::string>{"x", "y"});
}

TEST_CASE("a table in text that is damaged is refused with its line", "[study]") {
  const auto error = [](const char* text) { return test::error_of([&] { parse_study_csv(text, "t.csv"); }); };
  CHECK_THAT(error("a,b\n1,2\n3\n"), Catch::Contains("t.csv: line 3: 1 cells; expected 2"));
  CHECK_THAT(error("a,b\n1,\"2\n"), Catch::Contains("line 2: a quote that does not end"));
  CHECK_THAT(error("a,b\n"), Catch::Contains("a heading without a line"));
  CHECK_THAT(error("a,a\n1,2\n"), Catch::Contains("t.csv"));
  CHECK_THAT(error(""), Catch::Contains("t.csv"));
}

}  // namespace
}  // namespace kvscope
