// Columns that follow from others, and studies one under another: each cell against the input, by hand.
#include "engine/core/study/table/study_columns.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/support/error.h"
#include "tests/support/study_literal.h"

using namespace kvscope;
using test::study_of;

TEST_CASE("a policy's text gives its name and its numeric parameters as columns") {
  StudyTable table = study_of("policy,window\na,9\nfull,9\nc,9\n");
  table.columns[0].texts[0] = "streaming:sinks=4,window=60";
  table.columns[0].texts[2] = "kvpop:keep=25%,order=late";
  add_policy_columns(table);
  CHECK(table.texts("method", "") == std::vector<std::string>{"streaming", "full", "kvpop"});
  CHECK(table.numbers("sinks", "")[0] == 4);
  CHECK(std::isnan(table.numbers("sinks", "")[1]));
  CHECK(table.numbers("keep", "")[2] == Approx(0.25));
  CHECK(table.numbers("window", "")[0] == 9);  // the table's own column stays
  CHECK(table.column("order") == nullptr);
  CHECK_NOTHROW(check_study(table, "t"));
}

TEST_CASE("studies one under another have all columns of each, and the name of the one that a point is from") {
  const StudyTable all = join_studies(std::vector<std::pair<std::string, StudyTable>>{
      {"a", study_of("step,loss\n1,2\n2,1\n")}, {"b", study_of("step,word\n5,x\n")}});
  CHECK(all.texts("source", "") == std::vector<std::string>{"a", "a", "b"});
  CHECK(all.numbers("step", "") == std::vector<double>{1, 2, 5});
  CHECK(all.numbers("loss", "")[1] == 1);
  CHECK(std::isnan(all.numbers("loss", "")[2]));
  CHECK(all.texts("word", "") == std::vector<std::string>{"", "", "x"});
  CHECK_NOTHROW(check_study(all, "t"));
}

TEST_CASE("a column that is numbers in one study and texts in another is refused by its name") {
  const std::vector<std::pair<std::string, StudyTable>> clash = {{"a", study_of("x\n1\n")}, {"b", study_of("x\ny\n")}};
  CHECK_THROWS_WITH(join_studies(clash), Catch::Contains("x: a column of texts"));
}

TEST_CASE("a step of a training is found again in the grown table, by source and number") {
  const auto table = [](const std::string& steps_of_a) {
    const std::pair<std::string, StudyTable> both[] = {{"a", study_of("step\n" + steps_of_a)},
                                                       {"b", study_of("step\n1\n2\n")}};
    return join_studies(both);
  };
  const StudyTable before = table("1\n"), now = table("1\n2\n5\n");
  CHECK(same_step(before, 0, now) == 0);
  CHECK(same_step(before, 2, now) == 4);
  CHECK(same_step(now, 2, before) == -1);  // a training begun anew
  CHECK(same_step(study_of("x\n1\n"), 0, now) == -1);
}
