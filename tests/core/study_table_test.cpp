#include "engine/core/study/table/study_table.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/support/error.h"

namespace kvscope {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

StudyTable two_points() {
  return {.kind = "sweep",
          .request = R"({"model": "m"})",
          .facts = "{}",
          .columns = {{.name = "policy",
                       .units = "",
                       .meaning = "as written",
                       .is_text = true,
                       .texts = {"full", "kvpop:keep=25%,window=64"}},
                      {.name = "nll", .units = "nats/token", .meaning = "mean over pieces", .numbers = {2.5, kNaN}}},
          .arrays = {{.name = "density_by_head",
                      .units = "",
                      .meaning = "",
                      .axes = {"point", "layer"},
                      .shape = {2, 3},
                      .values = {0, 1, 2, 3, 4, 5}}}};
}

/// What the refusal says.
std::string refusal(const StudyTable& table) {
  try {
    check_study(table, "s.h5");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("study table: a whole one is taken, and is equal to itself though it holds NaN", "[study]") {
  const StudyTable table = two_points();
  CHECK(refusal(table).empty());
  CHECK(same_study(table, two_points()));
  StudyTable other = table;
  other.columns[1].numbers[0] = std::nextafter(2.5, 3.0);
  CHECK_FALSE(same_study(table, other));
  other = table;
  other.arrays[0].shape = {3, 2};
  CHECK_FALSE(same_study(table, other));
}

TEST_CASE("study table: as CSV, a comma is quoted and what was not measured is empty", "[study]") {
  CHECK(study_csv(two_points()) == "policy,nll\nfull,2.5\n\"kvpop:keep=25%,window=64\",\n");
}

TEST_CASE("study table: what does not fit together is refused by name", "[study]") {
  StudyTable table = two_points();
  table.columns[1].numbers.pop_back();
  CHECK(refusal(table) == "s.h5: nll: 1 values; expected 2, one per point");
  table = two_points();
  table.columns[1].name = "NLL";
  CHECK(refusal(table).find("\"NLL\": not a column's name") != std::string::npos);
  table = two_points();
  table.arrays[0].name = "nll";
  CHECK(refusal(table) == "s.h5: nll: listed twice");
  table = two_points();
  table.arrays[0].values.push_back(6);
  CHECK(refusal(table).find("density_by_head: 7 values") != std::string::npos);
  table = two_points();
  table.arrays[0].axes[1] = "point";  // of which there are two
  CHECK(refusal(table).find("axis \"point\" of 3") != std::string::npos);
  table = two_points();
  table.arrays[0].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  CHECK_FALSE(refusal(table).empty());
  table = two_points();
  table.request = "[1]";
  CHECK(refusal(table).find("request: not a JSON object") != std::string::npos);
  CHECK(refusal({.kind = "sweep", .request = "{}", .facts = "{}"}).find("without columns") != std::string::npos);
}

TEST_CASE("study table: a column that is not there is named with those that are", "[study]") {
  const StudyTable table = two_points();
  CHECK(table.numbers("nll", "s.h5").size() == 2);
  CHECK_THROWS_AS(table.numbers("policy", "s.h5"), Error);
  try {
    table.numbers("recall", "s.h5");
    FAIL("taken");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("one of nll") != std::string::npos);
  }
}

}  // namespace
}  // namespace kvscope
