// One run has one recall: in the list of runs, the inspector, `inspect`, `inspect --json`, `compare`, `what-if`, the table of A
// and B, and the data beside its figures.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/core/study/measure/comparison_table.h"
#include "engine/core/study/measure/oracle_label.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/text.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/window_driver.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using nlohmann::json;
using test::kvscope_run;
using test::skip_without_display;
using test::TemporaryFolder;
using test::WindowDriver;
using test::Xvfb;

namespace {

/// Heads that choose at different numbers of queries: the first begins late, as under a pool that leaves it room.
RunRecord uneven_run(const std::string& policy, bool pooled_oracle) {
  RunRecord run = test::random_run(3, {.policy = policy});
  for (std::int32_t& at : run.evict_at.row(0, 0)) {
    if (at < 150) at = 150;
  }
  for (std::int32_t& at : run.evict_at.row(1, 1)) {
    if (at < 120) at = 120;
  }
  run.oracle.pooled = pooled_oracle;
  run.contests.clear();
  return run;
}

/// The other definition: heads with few queries count as much as those with many.
double mean_of_heads(const RunRecord& run) {
  HeadMap map = head_metric(run, Metric::mean_recall, run.queries() - 1);
  map.weights.clear();
  return mean(map);
}

/// The mean of a column of a CSV file, by another of its columns.
double weighted_mean(const std::filesystem::path& path, const std::string& value, const std::string& weight) {
  std::ifstream file(path);
  std::string line, cell;
  std::getline(file, line);
  std::vector<std::string> names;
  for (std::istringstream cells(line); std::getline(cells, cell, ',');) names.push_back(cell);
  const auto index = [&](const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  REQUIRE(index(weight) < names.size());
  double sum = 0, all = 0;
  while (std::getline(file, line)) {
    std::vector<std::string> row;
    for (std::istringstream cells(line); std::getline(cells, cell, ',');) row.push_back(cell);
    const double w = std::stod(row.at(index(weight)));
    if (w == 0) continue;  // it has no value
    sum += w * std::stod(row.at(index(value))), all += w;
  }
  return sum / all;
}

struct Case {
  const char* policy;
  bool pooled;
};

}  // namespace

TEST_CASE("A run has one recall in inspect, inspect --json, compare, what-if and the data of its figures") {
  const auto [policy, pooled] =
      GENERATE(Case{"kvpop:budget=64,sinks=4,window=16,capacity=pooled", false},
               Case{"kvpop:budget=64,sinks=4,window=16,capacity=pooled", true},
               Case{"threshold:threshold=0.2,sinks=4,window=16", false}, Case{"sp-kv:threshold=0.1,window=16", false});
  CAPTURE(policy, pooled);
  const TemporaryFolder folder;
  const RunRecord run = uneven_run(policy, pooled);
  const auto trace = (folder / "t.h5").string(), other = (folder / "other.h5").string();
  save_trace(trace, run, false);
  save_trace(other, test::random_run(3, {.policy = "streaming:sinks=4,window=60"}), false);
  const OracleMean mean = mean_of(Oracle(run));
  REQUIRE(mean.n > 0);
  // The two definitions can be told apart; by a pooled oracle all heads choose at the same queries.
  if (!pooled) REQUIRE(std::abs(mean.recall - mean_of_heads(run)) > 0.0005);

  const json inspected = json::parse(kvscope_run({"inspect", trace, "--json"}).out)["first_run"];
  const json& own = inspected["oracles"][run.oracle.title()];
  CHECK(own["recall"].get<double>() == Approx(mean.recall).epsilon(1e-9));
  CHECK(own["k"].get<double>() == Approx(mean.capacity));
  CHECK(own["label"] == recall_label(OracleOf::own, mean));
  CHECK_THAT(kvscope_run({"inspect", trace}).out, Catch::Contains(recall_label(OracleOf::own, mean)));
  const json compared = json::parse(kvscope_run({"compare", trace, other, "--json"}).out)["runs"][0];
  CHECK(compared["own_oracle"]["recall"]["a"].get<double>() == Approx(mean.recall).epsilon(1e-9));
  CHECK(json::parse(kvscope_run({"compare", trace, trace, "--json"}).out)["runs"][0]["common_oracle"]["recall"]["b"]
            .get<double>() == Approx(mean.recall).epsilon(1e-9));
  const auto preview = kvscope_run({"what-if", trace, "streaming:sinks=4,window=60", "--json"});
  CHECK(json::parse(preview.out)["recorded"]["recall"].get<double>() == Approx(mean.recall).epsilon(1e-9));

  const auto figure = [&](const char* preset, const std::vector<std::string>& set) {
    const auto out = (folder / (std::string(preset) + ".svg")).string();
    std::vector<std::string> words = {"figure", "--preset", preset, trace, "-o", out, "--overwrite"};
    for (const std::string& one : set) words.insert(words.end(), {"--set", one});
    const auto result = kvscope_run(words);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return folder / (std::string(preset) + ".figure.csv");
  };
  CHECK(weighted_mean(figure("recall-map", {"metric=mean_recall"}), "value", "weight") ==
        Approx(mean.recall).epsilon(1e-5));
  CHECK(weighted_mean(figure("recall-map", {"metric=above_chance"}), "value", "weight") ==
        Approx(mean.above_chance()).epsilon(1e-5));
  CHECK(weighted_mean(figure("kvpop-fig7", {"metric=mean_recall"}), "value", "weight") ==
        Approx(mean.recall).epsilon(1e-5));
  CHECK(weighted_mean(figure("nll-curve", {"quantity=recall"}), "mean", "pairs") == Approx(mean.recall).epsilon(1e-5));
  std::ifstream tex(folder / "recall-map.tex");
  const std::string caption((std::istreambuf_iterator<char>(tex)), {});
  CHECK_THAT(caption, Catch::Contains("Mean over heads and queries " + fixed_text(mean.above_chance(), 2)) ||
                          Catch::Contains("Mean over heads and queries"));
  CHECK_THAT(caption, Catch::Contains("Own oracle, " + k_text(mean)));
}

TEST_CASE(
    "A run has the recall of `inspect` in the list of runs, in the inspector and in the table of A and B, by its label") {
  if (skip_without_display()) return;
  const std::string policy =
      GENERATE("kvpop:budget=64,sinks=4,window=16,capacity=pooled", "threshold:threshold=0.2,sinks=4,window=16");
  CAPTURE(policy);
  const TemporaryFolder folder;
  const RunRecord run = uneven_run(policy, false),
                  beside = test::random_run(3, {.policy = "streaming:sinks=4,window=60"});
  const auto trace = (folder / "a.h5").string(), other = (folder / "b.h5").string();
  save_trace(trace, run, false);
  save_trace(other, beside, false);
  const OracleMean mean = mean_of(Oracle(run)), of_b = mean_of(Oracle(beside));
  const std::string recall = fixed_text(mean.recall, 3);
  REQUIRE(recall != fixed_text(mean_of_heads(run), 3));

  const Xvfb display;
  WindowDriver window(display, {.engine = "exit 0", .words = {trace}});
  window.wait({{"/files_busy", false}, {"/a/status", "complete"}});
  CHECK_THAT(window.text_soon("run.1.detail", "recall"), Catch::Contains("recall " + recall + " (own)"));
  CHECK(std::stod(window.text_soon("inspector.run recall", "0.")) == Approx(std::stod(recall)).margin(1e-3));
  window.command("trace.open", {{"path", other}});
  window.wait({{"/files_busy", false}, {"/runs/1/status", "complete"}});
  window.command("run.compare", {{"a", 1}, {"b", 2}});
  window.command("layout.compare");
  window.wait({{"/a/id", 1}, {"/b/id", 2}});
  const std::string row = window.text_soon("comparison.own recall", "0.");
  CHECK(row.substr(0, row.find(' ')) == number_text(mean.recall, 4));
  CHECK_THAT(window.text("comparison.own recall.label"),
             Catch::Contains("recall (" + oracle_label(OracleOf::own, mean, of_b) + ")"));
  CHECK_THAT(window.text("comparison.oracle recall.label"), Catch::StartsWith("recall (shared oracle, k = "));
  CHECK(std::stod(window.text_soon("inspector.run recall", "0.")) == Approx(std::stod(recall)).margin(1e-3));
}
