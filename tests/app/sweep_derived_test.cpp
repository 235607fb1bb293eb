// Front, knee and values at matched cost of a sweep go by the normalised cache size.

#include "app/studies/sweep/sweep_derived.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "app/studies/sweep/sweep_plan.h"
#include "app/studies/sweep/sweep_table.h"
#include "engine/core/study/table/study_cost.h"
#include "engine/core/support/random.h"

using namespace kvscope;
using namespace kvscope::app;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A dense row, then `n` of three curves of one text.
StudyTable random_study(Random& random, int n) {
  StudyTable table{.kind = "sweep", .request = "{}", .facts = "{}"};
  for (const char* name : {"item", "curve"})
    table.columns.push_back({.name = name, .units = "", .meaning = "", .is_text = true});
  for (const char* name : {"chunk", "seed", "is_dense", "nll", "accuracy", "density", "cache_size", "window"})
    table.columns.push_back({.name = name, .units = "", .meaning = ""});
  const auto add = [&](const std::string& curve, std::vector<double> numbers) {
    table.columns[0].texts.push_back("a.txt");
    table.columns[1].texts.push_back(curve);
    for (std::size_t i = 0; i < numbers.size(); ++i) table.columns[2 + i].numbers.push_back(numbers[i]);
  };
  add("", {1, kNaN, 1, 2, kNaN, 1, 1, 64});
  for (int i = 0; i < n; ++i) {
    const auto unit = [&] { return static_cast<double>(random.below(40) + 1) / 41; };
    add("c" + std::to_string(random.below(3)),
        {1, kNaN, 0, 2 + unit(), kNaN, unit(), unit(), 64.0 * (1 + random.below(4))});
  }
  return table;
}

/// No other row is at least as cheap and as good, and better in one.
bool is_on_front(const std::vector<double>& cost, const std::vector<double>& nll, std::size_t i) {
  for (std::size_t j = 0; j < cost.size(); ++j)
    if (cost[j] <= cost[i] && nll[j] <= nll[i] && (cost[j] < cost[i] || nll[j] < nll[i])) return false;
  return true;
}

/// How far a row of the front is below the chord of its ends, in axes scaled to the front.
double depth(const std::vector<double>& cost, const std::vector<double>& nll, const std::vector<bool>& front,
             std::size_t i) {
  double least_cost = 2, most_cost = -1, least = 9, most = -1;
  for (std::size_t j = 0; j < cost.size(); ++j) {
    if (!front[j]) continue;
    least_cost = std::min(least_cost, cost[j]), most_cost = std::max(most_cost, cost[j]);
    least = std::min(least, nll[j]), most = std::max(most, nll[j]);
  }
  return 1 - (cost[i] - least_cost) / (most_cost - least_cost) - (nll[i] - least) / (most - least);
}

/// Between the neighbours of `at` on a curve; rows of one cost are their mean.
double interpolated(const StudyTable& table, const std::string& curve, double at) {
  double below = -1, above = 9;
  const auto &cost = table.numbers("cache_size", ""), &nll = table.numbers("nll", "");
  const auto& curves = table.texts("curve", "");
  for (std::size_t i = 0; i < cost.size(); ++i) {
    if (curves[i] != curve) continue;
    if (cost[i] <= at) below = std::max(below, cost[i]);
    if (cost[i] >= at) above = std::min(above, cost[i]);
  }
  if (below < 0 || above > 1) return kNaN;
  const auto mean_at = [&](double x) {
    double sum = 0, n = 0;
    for (std::size_t i = 0; i < cost.size(); ++i)
      if (curves[i] == curve && cost[i] == x) sum += nll[i], ++n;
    return sum / n;
  };
  if (above == below) return mean_at(at);
  return mean_at(below) + (mean_at(above) - mean_at(below)) * (at - below) / (above - below);
}

}  // namespace

TEST_CASE("front, knee and values at matched cost of 30 random studies are those of the definition, by cache size",
          "[sweep]") {
  Random random(47);
  int n_knees = 0;
  for (int round = 0; round < 30; ++round) {
    StudyTable table = random_study(random, 3 + static_cast<int>(random.below(30)));
    REQUIRE(study_cost(table) == "cache_size");
    REQUIRE(SweepPlan{}.cost == "cache_size");
    const std::vector<double> matched = {0.1, 0.25, 0.5, 0.75};
    add_derived(table, SweepPlan{}.cost, matched);
    const auto &cost = table.numbers("cache_size", ""), &nll = table.numbers("nll", "");
    std::vector<bool> front;
    for (std::size_t i = 0; i < cost.size(); ++i) front.push_back(is_on_front(cost, nll, i));
    const auto &on_front = table.numbers("on_front", ""), &is_knee = table.numbers("is_knee", "");
    double deepest = 0;
    for (std::size_t i = 0; i < cost.size(); ++i)
      if (front[i]) deepest = std::max(deepest, depth(cost, nll, front, i));
    CAPTURE(deepest);
    CHECK(std::ranges::count(is_knee, 1.0) == (deepest > 1e-9 ? 1 : 0));
    for (std::size_t i = 0; i < cost.size(); ++i) {
      CAPTURE(round, i);
      CHECK((on_front[i] == 1) == front[i]);
      if (is_knee[i] == 0) continue;
      ++n_knees;
      REQUIRE(front[i]);
      CHECK(depth(cost, nll, front, i) == Approx(deepest));
    }
    const auto& series = table.numbers("series", "");
    for (std::size_t i = 1; i < cost.size(); ++i) {
      for (std::size_t m = 0; m < matched.size(); ++m) {
        const double found =
            table.array("matched_value")->values[static_cast<std::size_t>(series[i]) * matched.size() + m];
        const double expected = interpolated(table, table.texts("curve", "")[i], matched[m]);
        CAPTURE(round, i, matched[m]);
        if (std::isnan(expected))
          CHECK(std::isnan(found));
        else
          CHECK(found == Approx(expected));
      }
    }
  }
  CHECK(n_knees >= 15);
}

TEST_CASE("windows differ where the least and the greatest are two tokens apart, the dense policy's aside", "[sweep]") {
  Random random(48);
  StudyTable table = random_study(random, 2);
  auto& windows = table.columns.back().numbers;
  windows = {4, 128, 128};
  CHECK_FALSE(window_spread(table));
  windows = {4, 128, 129};  // a share of two texts
  CHECK_FALSE(window_spread(table));
  windows = {4, 64, 256};
  REQUIRE(window_spread(table));
  CHECK(window_spread(table)->text() == "64 to 256");
  windows = {4, kNaN, 256};
  CHECK_FALSE(window_spread(table));
}

TEST_CASE("the table of a sweep ends with a warning where its windows differ", "[sweep]") {
  Random random(49);
  StudyTable table = random_study(random, 2);
  for (const char* name : {"policy", "gate"})
    table.columns.push_back({.name = name, .units = "", .meaning = "", .is_text = true, .texts = {"a", "b", "c"}});
  auto& windows = std::ranges::find(table.columns, "window", &StudyColumn::name)->numbers;
  windows = {4, 64, 256};
  CHECK(sweep_text(table).ends_with(
      "density leaves out the windows, which differ (64 to 256 tokens): compare by cache size\n"));
  windows = {4, 64, 64};
  CHECK(sweep_text(table).find("density leaves out") == std::string::npos);
}

TEST_CASE("a study made before cache size was measured goes by its density", "[sweep]") {
  StudyTable table{.kind = "sweep", .request = "{}", .facts = "{}"};
  CHECK(study_cost(table) == "density");
  table.columns.push_back({.name = "cache_size", .units = "", .meaning = ""});
  CHECK(study_cost(table) == "cache_size");
  table.request = R"({"cost": "cache_bytes"})";
  CHECK(study_cost(table) == "cache_bytes");
}
