// Means of recorded norms, against the numbers by hand.

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <sstream>

#include "engine/core/study/measure/output_error.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/core/study/table/export_run.h"
#include "engine/core/support/json_file.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using kvscope::test::random_run;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// One layer of two heads and four queries; head 0 loses something from query 2 on, head 1 nothing.
RunRecord hand_made() {
  RunRecord run;
  run.model.n_layers = 1;
  run.model.n_kv_heads = 2;
  run.output_error = OutputError(1, 2);
  run.output_error.group_damage.row(0, 0) = {kNaN, kNaN, 3, 4};
  run.output_error.group_damage.row(0, 1) = {kNaN, kNaN, kNaN, kNaN};
  run.output_error.layer_damage.row(0, 0) = {kNaN, kNaN, 3, 4};
  run.output_error.layer_output.row(0, 0) = {100, 100, 6, 8};
  return run;
}

}  // namespace

TEST_CASE("output error: at a query it is a ratio of norms, NaN where nothing is lost",
          "[core][metric][output_error]") {
  const RunRecord run = hand_made();
  CHECK(output_error_at(run, 2).at(0, 0) == 0.5f);
  CHECK(std::isnan(output_error_at(run, 1).at(0, 0)));
  CHECK(std::isnan(output_error_at(run, 2).at(0, 1)));
  CHECK(std::isnan(output_error_at(run, 4).at(0, 0)));
  CHECK(std::isnan(output_error_at(run, -1).at(0, 0)));
}

TEST_CASE("output error: its mean is over the queries that lost something, sqrt(sum |d|^2 / sum |o|^2)",
          "[core][metric][output_error]") {
  RunRecord run = hand_made();
  run.output_error.layer_output.row(0, 0) = {100, 100, 5, 12};
  const OutputErrorMap all = output_error_map(run, 3);
  CHECK(all.map.at(0, 0) == Approx(5.0 / 13));
  CHECK(all.n_queries == std::vector<int>{2, 0});
  const OutputErrorMap some = output_error_map(run, 2);
  CHECK(some.map.at(0, 0) == Approx(3.0 / 5));
  CHECK(some.n_queries == std::vector<int>{1, 0});
  CHECK(output_error_map(run, 1000).map.at(0, 0) == all.map.at(0, 0));
  CHECK(std::isnan(output_error_map(run, 1).map.at(0, 0)));
  CHECK(head_metric(run, Metric::output_error, 3).at(0, 0) == all.map.at(0, 0));

  const OutputErrorCurve curve = output_error_curve(run, 0);
  REQUIRE(curve.values.size() == 4);
  CHECK(std::isnan(curve.values[0]));
  CHECK(curve.values[3] == Approx(4.0 / 12));
  CHECK(curve.mean.value == Approx(5.0 / 13));
  CHECK(curve.mean.n_queries == 2);
}

TEST_CASE("output error: what was not measured is nowhere", "[core][metric][output_error]") {
  const RunRecord run = random_run(1);
  CHECK(std::isnan(mean(head_metric(run, Metric::output_error, 100))));
  CHECK(std::isnan(mean(output_error_at(run, 100))));
  CHECK(output_error_curve(run, 0).values.empty());
  CHECK(std::isnan(output_error_curve(run, 0).mean.value));
  CHECK(output_error_note(run, 100) == "Not measured in this run (--output-error).");
}

TEST_CASE("output error: the note counts queries and heads", "[core][metric][output_error]") {
  RunRecord run = hand_made();
  CHECK(output_error_note(run, 3) == "Means over 2 queries of 1 head; 1 head lost nothing.");
  CHECK(output_error_note(run, 1) == "Nothing was evicted or left unread.");
  run.output_error.group_damage.row(0, 1) = {kNaN, kNaN, kNaN, 1};
  CHECK(output_error_note(run, 3) == "Means over 1 to 2 queries of 2 heads.");
}

TEST_CASE("output error: a preview has none, as nothing was measured under its lifetimes",
          "[core][metric][whatif][output_error]") {
  const RunRecord run = random_run(3, {.output_error = true});
  CHECK(what_if(run, run.policy).output_error.empty());
}

TEST_CASE("output error: it is exported as a table, one line a layer, head and query", "[core][export][output_error]") {
  const RunRecord run = random_run(3, {.output_error = true, .last_token_fed = false});
  const auto path = std::filesystem::temp_directory_path() / ("kvscope-damage-" + std::to_string(::getpid()) + ".csv");
  export_csv(run, parse_export_parts("output_error"), path);
  std::istringstream lines(read_file(path, 1u << 24));
  std::filesystem::remove(path);
  std::string line;
  std::getline(lines, line);
  CHECK(line == "layer,kv_head,query,group_damage,layer_damage,layer_output,read_mass,best_read_mass");
  int n = 0;
  while (std::getline(lines, line)) {
    if (n == 0) CHECK(line.starts_with("0,0,0,,,1."));  // nothing is lost at the first query
    ++n;
  }
  CHECK(n == 2 * 3 * 179);
}
