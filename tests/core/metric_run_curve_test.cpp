// The curves of a run, against the metrics that they go through and against plain sums.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/study/measure/output_error.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/measure/run_curve.h"
#include "engine/core/support/error.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using kvscope::test::random_run;

namespace {

void check_same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) {
    CHECK(std::isnan(a) == std::isnan(b));
  } else {
    CHECK(a == Approx(b).margin(1e-6));  // metrics are floats
  }
}

double tokens_counted(const RunRecord& run, std::int32_t q) {
  const HeadMap share = head_metric(run, Metric::cache_share, q);
  return mean(share) * (q + 1);
}

}  // namespace

TEST_CASE("run_curve: with a point for each position it is the mean of every head's metric there", "[core][metric]") {
  const std::string policy = GENERATE("kvpop:budget=64,sinks=4,window=16,decay=0.9999", "streaming:sinks=4,window=60",
                                      "threshold:threshold=0.2,sinks=2,window=8", "full");
  RunRecord run = random_run(5, {.policy = policy});
  SECTION("of a run that has ended") {}
  SECTION("of one that failed") { run.status = RunStatus::failed; }
  SECTION("of one whose last token was not fed") { run = random_run(6, {.policy = policy, .last_token_fed = false}); }
  const int n = run.n_tokens();
  const RunCurve density = run_curve(run, RunQuantity::density, n), recall = run_curve(run, RunQuantity::recall, 2 * n),
                 cached = run_curve(run, RunQuantity::cached, n);
  REQUIRE(density.points.size() == static_cast<std::size_t>(n));
  CHECK(density.n_parts == 6);
  for (std::int32_t q = 0; q < run.queries(); ++q) {
    CAPTURE(policy, q);
    CHECK(density.points[q].first == q);
    CHECK(density.points[q].last == q);
    check_same(density.points[q].mean, mean(head_metric(run, Metric::density, q)));
    check_same(recall.points[q].mean, mean(head_metric(run, Metric::recall, q)));
    CHECK(cached.points[q].mean == Approx(tokens_counted(run, q)).margin(1e-3));
  }
  for (std::int32_t q = run.queries(); q < n; ++q) CHECK(std::isnan(cached.points[q].mean));  // no such query
}

TEST_CASE("run_curve: a point is the mean over its positions, and no position is left out", "[core][metric]") {
  const RunRecord run = random_run(2);
  const RunCurve curve = run_curve(run, RunQuantity::nll, 7);
  REQUIRE(curve.points.size() == 7);
  std::int32_t next = 0;
  double sum = 0, all = 0;
  int n = 0, n_all = 0;
  for (const CurvePoint& point : curve.points) {
    CHECK(point.first == next);
    next = point.last + 1;
    for (std::int32_t p = point.first; p <= point.last; ++p) {
      if (std::isnan(run.logprobs[p])) continue;
      sum -= run.logprobs[p], ++n;
    }
    CHECK(point.n == n);
    CHECK(point.mean == Approx(sum / n));
    CHECK(point.low == point.mean);  // one value a position
    all += sum, n_all += n;
    sum = 0, n = 0;
  }
  CHECK(next == run.n_tokens());
  CHECK(curve.mean == Approx(all / n_all));
}

TEST_CASE("run_curve: the spread is that of the heads' own means, and output error goes over layers",
          "[core][metric]") {
  const RunRecord run = random_run(3, {.n_layers = 1, .n_kv_heads = 5, .output_error = true});
  const RunCurve curve = run_curve(run, RunQuantity::density, 3);
  const CurvePoint& last = curve.points[2];
  std::vector<double> of_heads;
  for (int head = 0; head < 5; ++head) {
    double sum = 0;
    for (std::int32_t q = last.first; q <= last.last; ++q) sum += head_metric(run, Metric::density, q).at(0, head);
    of_heads.push_back(sum / (last.last - last.first + 1));
  }
  std::ranges::sort(of_heads);
  CHECK(last.low == Approx(of_heads[1]));  // of five: the second, the fourth
  CHECK(last.high == Approx(of_heads[3]));
  const RunCurve error = run_curve(run, RunQuantity::output_error, 1);
  CHECK(error.n_parts == 1);
  double sum = 0;
  int n = 0;
  for (const float v : output_error_curve(run, 0).values) {
    if (!std::isnan(v)) sum += v, ++n;
  }
  REQUIRE(n > 0);
  CHECK(error.points[0].mean == Approx(sum / n));
  CHECK(std::isnan(run_curve(random_run(3), RunQuantity::output_error, 4).mean));  // not measured
}

TEST_CASE("run_curve_difference: B - A over the tokens in common, nothing of a run with itself", "[core][metric]") {
  const RunRecord a = random_run(4);
  RunRecord b = random_run(4, {.policy = "streaming:sinks=4,window=60"});
  b.logprobs.assign(a.logprobs.begin(), a.logprobs.end());
  for (float& v : b.logprobs) v -= 0.25f;
  const RunCurve nll = run_curve_difference(a, b, RunQuantity::nll, 5);
  for (const CurvePoint& point : nll.points) CHECK(point.mean == Approx(0.25).epsilon(1e-5));
  const RunCurve cached = run_curve_difference(a, b, RunQuantity::cached, a.n_tokens());
  CHECK(cached.points[150].mean == Approx(tokens_counted(b, 150) - tokens_counted(a, 150)).margin(1e-3));
  CHECK(run_curve_difference(a, a, RunQuantity::recall, 9).mean == 0);
  b.ids[100] += 1;
  const RunCurve shorter = run_curve_difference(a, b, RunQuantity::nll, 1000);
  REQUIRE(shorter.points.size() == 100);
  b.ids[0] += 1;
  CHECK(run_curve_difference(a, b, RunQuantity::nll, 4).points.empty());
  CHECK_THROWS_AS(run_curve_difference(a, random_run(4, {.n_layers = 3}), RunQuantity::nll, 4), Error);
}

TEST_CASE("run_curve: of a part it has the values that the whole has there", "[core][metric]") {
  const std::string policy = GENERATE("kvpop:budget=64,sinks=4,window=16,decay=0.9999", "streaming:sinks=4,window=60");
  const RunRecord run = random_run(5, {.policy = policy, .output_error = true, .last_token_fed = false});
  const RunRecord other = random_run(5, {.policy = "streaming:sinks=4,window=30", .output_error = true});
  const int n = run.n_tokens();
  for (const RunQuantityInfo& info : run_quantities()) {
    const RunCurve whole = run_curve(run, info.quantity, n);
    const RunCurve difference = run_curve_difference(run, other, info.quantity, n);
    for (const CurvePart part : {CurvePart{0, 30}, {37, 50}, {n - 20, 40}, {n - 5, 0}, {90, 1}}) {
      CAPTURE(policy, info.name, part.first, part.count);
      const RunCurve some = run_curve(run, info.quantity, n, {}, part);
      const RunCurve some_of_both = run_curve_difference(run, other, info.quantity, n, {}, part);
      const int end = part.count > 0 ? std::min(n, part.first + part.count) : n;
      REQUIRE(some.points.size() == static_cast<std::size_t>(end - part.first));
      REQUIRE(some_of_both.points.size() == some.points.size());
      double sum = 0;
      int n_values = 0;
      for (std::size_t i = 0; i < some.points.size(); ++i) {
        const auto at = static_cast<std::size_t>(part.first) + i;
        CHECK(some.points[i].first == whole.points[at].first);
        CHECK(some.points[i].last == whole.points[at].last);
        CHECK(some.points[i].n == whole.points[at].n);
        check_same(some.points[i].mean, whole.points[at].mean);
        check_same(some.points[i].low, whole.points[at].low);
        check_same(some.points[i].high, whole.points[at].high);
        check_same(some_of_both.points[i].mean, difference.points[at].mean);
        if (!std::isnan(some.points[i].mean)) sum += some.points[i].mean, ++n_values;
      }
      if (info.quantity == RunQuantity::nll || info.quantity == RunQuantity::cached)  // every head has every position
        check_same(some.mean, n_values > 0 ? sum / n_values : std::nan(""));
    }
  }
  CHECK(run_curve_cost(run, RunQuantity::cached, {10, 20}) < run_curve_cost(run, RunQuantity::cached));
}

TEST_CASE("run_curve: a part over the run's end is divided as if the run went on, so that two runs share their points",
          "[core][metric]") {
  const RunRecord longer = random_run(2), shorter = random_run(2, {.n_new = 10});
  const CurvePart all{0, longer.n_tokens()};
  REQUIRE(shorter.n_tokens() < longer.n_tokens());
  const RunCurve a = run_curve(longer, RunQuantity::nll, 20, {}, all),
                 b = run_curve(shorter, RunQuantity::nll, 20, {}, all);
  REQUIRE(b.points.size() < a.points.size());
  for (std::size_t i = 0; i < b.points.size(); ++i) {
    CHECK(b.points[i].first == a.points[i].first);
    CHECK(b.points[i].last == std::min(a.points[i].last, shorter.n_tokens() - 1));
  }
  CHECK(b.points.back().last == shorter.n_tokens() - 1);
  CHECK(run_curve(shorter, RunQuantity::nll, 20, {}, {shorter.n_tokens() + 3, 5}).points.empty());
}

TEST_CASE("run_curve: a point has the least and the greatest of its positions", "[core][metric]") {
  const RunRecord run = random_run(3);
  const int n = run.n_tokens();
  for (const RunQuantity quantity : {RunQuantity::nll, RunQuantity::cached}) {
    const RunCurve fine = run_curve(run, quantity, n);
    for (const CurvePoint& point : run_curve(run, quantity, 11).points) {
      double least = INFINITY, greatest = -INFINITY;
      for (std::int32_t p = point.first; p <= point.last; ++p) {
        const double v = fine.points[static_cast<std::size_t>(p)].mean;
        if (!std::isnan(v)) least = std::min(least, v), greatest = std::max(greatest, v);
      }
      CHECK(point.least == Approx(least));
      CHECK(point.greatest == Approx(greatest));
      CHECK(point.least <= point.greatest);
    }
    for (const CurvePoint& point : fine.points) {
      check_same(point.least, point.mean);
      check_same(point.greatest, point.mean);
    }
  }
}

// A head with a choice at ten queries counted as much as one with a choice at all: the curve's mean was another recall than the run's.
TEST_CASE(
    "run_curve: the mean of recall is the run's, and so is the mean of a map of mean recall or recall above chance",
    "[core][metric]") {
  for (const char* policy : {"kvpop:budget=64,sinks=4,window=16", "threshold:threshold=0.2,sinks=2,window=8"}) {
    RunRecord run = random_run(7, {.policy = policy});
    for (std::int32_t& at : run.evict_at.row(0, 1)) at = std::max(at, 160);
    const OracleMean of_run = mean_of(Oracle(run)), up_to = mean_of(Oracle(run), 170);
    const RunCurve curve = run_curve(run, RunQuantity::recall, 11);
    CHECK(curve.mean == Approx(of_run.recall));
    CHECK(curve.oracle.recall == Approx(of_run.recall));
    CHECK(curve.oracle.n == of_run.n);
    double sum = 0;
    std::int64_t pairs = 0;
    for (const CurvePoint& point : curve.points) {
      if (point.pairs == 0) continue;
      sum += point.mean * static_cast<double>(point.pairs), pairs += point.pairs;
      CHECK((point.least <= point.mean + 1e-12 && point.mean <= point.greatest + 1e-12));
    }
    CHECK(pairs == of_run.n);
    CHECK(sum / static_cast<double>(pairs) == Approx(of_run.recall));
    HeadMap map = head_metric(run, Metric::mean_recall, 170);
    check_same(mean(map), up_to.recall);
    check_same(mean(head_metric(run, Metric::above_chance, 170)), up_to.above_chance());
    map.weights.clear();
    CHECK(std::abs(mean(map) - up_to.recall) > 1e-4);  // which the mean of the heads' means is not
  }
}

TEST_CASE("run_curve: bytes and pages are those of the tokens that a plain loop counts", "[core][metric]") {
  const std::string policy = GENERATE("kvpop:budget=64,sinks=4,window=16", "threshold:threshold=0.2,sinks=2,window=8");
  RunRecord run = random_run(8, {.policy = policy, .last_token_fed = false});
  run.model.dtype = "bfloat16";
  run.page_size = GENERATE(16, 5);
  const int n = run.n_tokens();
  const RunCurve bytes = run_curve(run, RunQuantity::cache_bytes, n),
                 pages = run_curve(run, RunQuantity::page_occupancy, n);
  std::vector<int> most(6, 0);
  bool is_fragmented = false;
  for (std::int32_t q = 0; q < run.queries(); ++q) {
    CAPTURE(policy, run.page_size, q);
    double held_by_all = 0, occupancy = 0;
    for (int head = 0; head < 6; ++head) {
      int held = 0;
      for (std::int32_t t = 0; t <= q; ++t) held += run.evict_at.row(head / 3, head % 3)[t] > q;
      int& here = most[static_cast<std::size_t>(head)];
      here = std::max(here, held);
      const int n_pages = (here + run.page_size - 1) / run.page_size;
      held_by_all += held;
      occupancy += static_cast<double>(held) / (n_pages * run.page_size);
    }
    is_fragmented = is_fragmented || occupancy / 6 < 0.9;
    check_same(bytes.points[q].mean, held_by_all / 6 * 2 * run.model.head_dim * 2 / 1024);
    check_same(pages.points[q].mean, occupancy / 6);
  }
  CHECK(is_fragmented);
  run.model.dtype = "";
  CHECK(std::isnan(run_curve(run, RunQuantity::cache_bytes, n).mean));
  CHECK_FALSE(std::isnan(run_curve(run, RunQuantity::page_occupancy, n).mean));
}

TEST_CASE("run_curve: of nothing it is nothing", "[core][metric]") {
  const RunRecord empty;
  for (const RunQuantityInfo& info : run_quantities()) {
    CHECK(run_curve(empty, info.quantity, 10).points.empty());
    CHECK(&info_of(info.quantity) == &info);
    CHECK_FALSE(info.definition.empty());
  }
  const RunRecord blind = random_run(1, {.oracle = false});
  CHECK(std::isnan(run_curve(blind, RunQuantity::recall, 10).mean));
}
