// The numbers by which runs are listed, against plain counting over what the run recorded.
#include "engine/core/study/measure/run_measures.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "engine/core/study/measure/comparison_table.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using kvscope::test::random_run;

namespace {

double nll_by_hand(const RunRecord& run, int first) {
  double sum = 0;
  int n = 0;
  for (int t = first; t < run.n_tokens(); ++t) {
    const double p = run.logprobs[static_cast<std::size_t>(t)];
    if (!std::isnan(p)) sum += -p, n += 1;
  }
  return sum / n;
}

/// Tokens that the heads hold as query q sees it, added up.
double held_by_hand(const RunRecord& run, int q) {
  int held = 0;
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      for (int t = 0; t <= q; ++t) held += run.evict_at.row(layer, head)[static_cast<std::size_t>(t)] > q;
    }
  }
  return held;
}

}  // namespace

TEST_CASE("run_measures: every number of a run equals its count by hand", "[core]") {
  const char* policy = GENERATE("kvpop:budget=64,sinks=4,window=16", "streaming:sinks=4,window=30",
                                "threshold:threshold=0.3,sinks=4,window=16", "full");
  CAPTURE(policy);
  RunRecord run = random_run(7, {.policy = policy, .last_token_fed = GENERATE(true, false)});
  run.timings.decode_s = 1.5, run.timings.decode_steps = 60;
  run.model.dtype = GENERATE("float32", "bfloat16"), run.model.head_dim = 32;
  const RunMeasures m = measure_run(run);
  const int n = run.queries(), n_heads = run.model.n_layers * run.model.n_kv_heads;
  CHECK(m[RunMeasure::nll_answer] == Approx(nll_by_hand(run, run.prompt_len)));
  CHECK(m[RunMeasure::nll_text] == Approx(nll_by_hand(run, 0)));
  double share = 0;
  for (int q = 0; q < n; ++q) share += held_by_hand(run, q) / n_heads / (q + 1);
  const double last = held_by_hand(run, n - 1);
  CHECK(m[RunMeasure::cache_size] == Approx(share / n));
  CHECK(m[RunMeasure::cache_size_end] == Approx(last / n_heads / n));
  CHECK(m.cached == Approx(last / n_heads));
  CHECK(m[RunMeasure::cache_bytes] == last * 2 * 32 * (run.model.dtype == "float32" ? 4 : 2));
  CHECK(m[RunMeasure::ms_per_token] == 25);
  CHECK(m[RunMeasure::tokens] == run.n_tokens());

  double recall = 0, chance = 0;
  std::int64_t pairs = 0;
  const Oracle oracle(run);
  for (int head = 0; head < n_heads; ++head) {
    for (int q = 0; q < oracle.n_queries(); ++q) {
      const OracleCounts c = oracle.counts(head / run.model.n_kv_heads, head % run.model.n_kv_heads, q);
      if (!c.chosen) continue;
      recall += static_cast<double>(c.hits) / c.capacity, chance += static_cast<double>(c.kept) / c.eligible, ++pairs;
    }
  }
  recall /= static_cast<double>(pairs), chance /= static_cast<double>(pairs);
  if (pairs == 0) CHECK(std::isnan(m[RunMeasure::above_chance]));
  if (pairs > 0) CHECK(m[RunMeasure::above_chance] == Approx((recall - chance) / (1 - chance)));
}

TEST_CASE("run_measures: of what a run has no value the reason is a sentence, and only of that", "[core]") {
  RunRecord run = random_run(3, {.oracle = false});
  run.model.dtype.clear(), run.timings = {}, run.ids.resize(static_cast<std::size_t>(run.prompt_len));
  fill_rows(run);
  const RunMeasures m = measure_run(run);
  std::set<std::string> reasons;
  for (const RunMeasureInfo& info : run_measures()) {
    CAPTURE(info.name);
    if (!std::isnan(m[info.measure])) continue;
    const std::string why = why_not_measured(run, info.measure);
    CHECK(why.ends_with('.'));
    reasons.insert(why);
  }
  CHECK(reasons.size() == 4);  // answer, oracle, bytes, time
  run.status = RunStatus::running;
  CHECK(why_not_measured(run, RunMeasure::nll_text) == "The run is in progress.");
  for (const RunMeasureInfo& info : run_measures())
    CHECK(run_measures()[static_cast<std::size_t>(info.measure)].name == info.name);
}

TEST_CASE("run_measures: the comparison of A and B has the same numbers", "[core]") {
  RunRecord a = random_run(3), b = random_run(3, {.policy = "streaming:sinks=4,window=60"});
  a.timings.decode_s = 2, b.timings.decode_s = 3, a.timings.decode_steps = b.timings.decode_steps = 60;
  const ComparisonTable table = comparison_table(a, b, 1000);
  const auto number = [&](std::string_view name) {
    for (const ComparisonRow& row : table.came_of) {
      if (row.name == name) return std::stod(row.a);
    }
    FAIL("no row " << name);
    return 0.0;
  };
  const RunMeasures m = measure_run(a);
  CHECK(number("NLL of the answer") == Approx(m[RunMeasure::nll_answer]).epsilon(1e-3));
  CHECK(number("NLL of all") == Approx(m[RunMeasure::nll_text]).epsilon(1e-3));
  CHECK(number("in cache") == Approx(m.cached).epsilon(1e-3));
  CHECK(number("ms per token") == Approx(m[RunMeasure::ms_per_token]).epsilon(1e-3));
}
