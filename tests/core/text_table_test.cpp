// Tables of other commands as studies: each cell against the text, by hand.
#include "engine/core/study/table/text_table.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/study/table/training_log.h"
#include "engine/core/support/error.h"

using namespace kvscope;

TEST_CASE("CSV becomes columns of numbers and texts, quotes and empty cells as RFC 4180 has them") {
  const StudyTable table =
      read_text_table("item,Policy,nll,note x\r\nneedle,\"a, \"\"b\"\"\",1.5,\n\"two\nlines\",c,,7\n", "t.csv");
  REQUIRE(table.n_points() == 2);
  CHECK(table.texts("item", "") == std::vector<std::string>{"needle", "two\nlines"});
  CHECK(table.texts("policy", "") == std::vector<std::string>{"a, \"b\"", "c"});
  CHECK(table.numbers("nll", "")[0] == 1.5);
  CHECK(std::isnan(table.numbers("nll", "")[1]));
  CHECK(std::isnan(table.numbers("note_x", "")[0]));
  CHECK(table.numbers("note_x", "")[1] == 7);
  CHECK(table.column("nll")->units == "nats/token");
}

TEST_CASE("the interval of eval's accuracy goes by the names that intervals have") {
  const StudyTable table = read_text_table("accuracy,low,high\n0.5,0.25,0.75\n", "t.csv");
  CHECK(table.numbers("accuracy_low", "")[0] == 0.25);
  CHECK(table.numbers("accuracy_high", "")[0] == 0.75);
  CHECK(table.column("low") == nullptr);
}

TEST_CASE("of JSON lines, repetitions become a median with its range, and the closing object is left out") {
  const StudyTable table = read_text_table(
      "{\"policy\":\"full\",\"ms_per_step\":{\"max\":3,\"median\":2,\"min\":1},\"cache_bytes\":8,\"skip\":[1],\"on\":true}\n"
      "\n{\"policy\":\"dms\",\"cache_bytes\":null,\"extra\":{\"n\":4}}\n"
      "{\"device\":\"cpu\",\"rows\":[{\"policy\":\"full\"},{\"policy\":\"dms\"}]}\n",
      "t.jsonl");
  REQUIRE(table.n_points() == 2);
  CHECK(table.numbers("ms_per_step", "")[0] == 2);
  CHECK(table.numbers("ms_per_step_low", "")[0] == 1);
  CHECK(table.numbers("ms_per_step_high", "")[0] == 3);
  CHECK(std::isnan(table.numbers("ms_per_step", "")[1]));
  CHECK(table.numbers("cache_bytes", "")[0] == 8);
  CHECK(table.column("cache_bytes")->units == "bytes");
  CHECK(std::isnan(table.numbers("cache_bytes", "")[1]));
  CHECK(table.numbers("extra_n", "")[1] == 4);
  CHECK(table.numbers("on", "")[0] == 1);
  CHECK(table.column("skip") == nullptr);
  CHECK(read_text_table("{\"rows\":[{\"a\":1},{\"a\":2},{\"a\":3}]}", "t.json").n_points() == 3);
  CHECK(read_text_table("{\n  \"rows\": [\n {\"a\": 1}, {\"a\": 2}]}\n", "t.json").numbers("a", "")[1] == 2);
}

TEST_CASE("a policy's text gives its name and its numeric parameters as columns") {
  StudyTable table = read_text_table(
      "policy,window\n\"streaming:sinks=4,window=60\",9\nfull,9\n\"kvpop:keep=25%,order=late\",9\n", "t.csv");
  add_policy_columns(table);
  CHECK(table.texts("method", "") == std::vector<std::string>{"streaming", "full", "kvpop"});
  CHECK(table.numbers("sinks", "")[0] == 4);
  CHECK(std::isnan(table.numbers("sinks", "")[1]));
  CHECK(table.numbers("keep", "")[2] == Approx(0.25));
  CHECK(table.numbers("window", "")[0] == 9);  // the table's own column stays
  CHECK(table.column("order") == nullptr);
  CHECK_NOTHROW(check_study(table, "t"));
}

TEST_CASE("tables one under another have all columns of each, and the name of the one that a point is from") {
  const StudyTable all = join_tables(std::vector<std::pair<std::string, StudyTable>>{
      {"a", read_text_table("step,loss\n1,2\n2,1\n", "a")}, {"b", read_text_table("step,word\n5,x\n", "b")}});
  CHECK(all.texts("source", "") == std::vector<std::string>{"a", "a", "b"});
  CHECK(all.numbers("step", "") == std::vector<double>{1, 2, 5});
  CHECK(all.numbers("loss", "")[1] == 1);
  CHECK(std::isnan(all.numbers("loss", "")[2]));
  CHECK(all.texts("word", "") == std::vector<std::string>{"", "", "x"});
  CHECK_NOTHROW(check_study(all, "t"));
}

TEST_CASE("a table that is none is refused in a line that says where") {
  const auto [text, found] = GENERATE(table<const char*, const char*>({
      {"", "an empty table"},
      {"a,b\n", "without points"},
      {"a,b\n1\n", "1 fields"},
      {"a,a\n1,2\n", "listed twice"},
      {"{\"a\":1}\n[2]\n", "line 2"},
      {"{\"a\":1\n", "line 1"},
      {"{\"rows\":[]}\n", "without points"},
  }));
  INFO(text);
  CHECK_THROWS_WITH(read_text_table(text, "t.csv"), Catch::Contains("t.csv") && Catch::Contains(found));
  const std::vector<std::pair<std::string, StudyTable>> clash = {{"a", read_text_table("x\n1\n", "a")},
                                                                 {"b", read_text_table("x\ny\n", "b")}};
  CHECK_THROWS_WITH(join_tables(clash), Catch::Contains("a column of texts"));
}

TEST_CASE("the curve of a training is told by its columns, which say what they are, and one column less is any table") {
  const std::string ending = ",loss_all,gate_open,open_0_1,tokens_per_s,seconds\n1,512,0.5,3,0.9,0.8,2000,0.25\n";
  const StudyTable curve = read_text_table("step,tokens,learning_rate" + ending, "a_loss.csv");
  CHECK(curve.kind == kTrainingLog);
  CHECK(curve.column("seconds")->units == "s");
  CHECK(curve.column("tokens_per_s")->units == "tokens/s");
  CHECK_THAT(curve.column("gate_open")->meaning, Catch::Contains("share of tokens"));
  CHECK_THAT(curve.column("open_0_1")->meaning, Catch::Contains("this head"));
  CHECK(curve.column("loss_all")->meaning.empty());  // what it is depends on the method
  CHECK(read_text_table("step,tokens,rate" + ending, "a_loss.csv").kind == "table");
}

TEST_CASE("a step of a training is found again in the grown table, by source and number") {
  const auto table = [](const std::string& steps_of_a) {
    const std::pair<std::string, StudyTable> both[] = {{"a", read_text_table("step\n" + steps_of_a, "a")},
                                                       {"b", read_text_table("step\n1\n2\n", "b")}};
    return join_tables(both);
  };
  const StudyTable before = table("1\n"), now = table("1\n2\n5\n");
  CHECK(same_step(before, 0, now) == 0);
  CHECK(same_step(before, 2, now) == 4);
  CHECK(same_step(now, 2, before) == -1);  // a training begun anew
  CHECK(same_step(read_text_table("x\n1\n", "t"), 0, now) == -1);
}
