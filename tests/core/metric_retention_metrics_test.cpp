#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "engine/core/record/oracle_lifetimes.h"
#include "engine/core/study/retention_metrics.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using test::random_run;

namespace {

constexpr const char* kPolicies[] = {"full", "streaming:sinks=4,window=16", "threshold:threshold=0.1,sinks=2,window=16",
                                     "kvpop:budget=64,sinks=4,window=16,decay=0.999",
                                     "kvpop:budget=20,sinks=0,window=16"};

/// Counts of one head at q by the definitions, token by token: window, sinks and undecided tokens told apart by hand.
struct Counts {
  int outside = 0, outside_kept = 0;    // t <= q - window
  int eligible = 0, eligible_kept = 0;  // n_sink <= t <= q - window
  int all_kept = 0, oracle = 0, both = 0;
  double mass_kept = 0, mass_oracle = 0;
};

Counts count(const RunRecord& run, int layer, int head, int q) {
  const RetentionGeometry g = run.geometry();
  Counts c;
  for (int t = 0; t <= q; ++t) {
    const int evict_at = run.evict_at.row(layer, head)[t];
    const bool kept = q < evict_at;
    c.all_kept += kept;
    if (t > q - g.window || evict_at == kUndecided) continue;
    ++c.outside;
    c.outside_kept += kept;
    if (t < g.n_sink) continue;
    ++c.eligible;
    c.eligible_kept += kept;
    if (run.oracle_evict_at.empty()) continue;
    const bool oracle = q < run.oracle_evict_at.row(layer, head)[t];
    c.oracle += oracle;
    c.both += oracle && kept;
    const double mass = run.future_mass.row(layer, head)[t];
    if (kept) c.mass_kept += mass;
    if (oracle) c.mass_oracle += mass;
  }
  return c;
}

float ratio(double part, double whole) { return whole == 0 ? NAN : static_cast<float>(part / whole); }
bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

TEST_CASE("head_metric: every metric equals the count of its definition", "[core][metric]") {
  const std::string policy = GENERATE(from_range(std::begin(kPolicies), std::end(kPolicies)));
  const RunRecord run = random_run(3, {.policy = policy});
  for (int q : {0, 3, 15, 16, 20, 63, 64, 100, run.n_tokens() - 1}) {
    const HeadMap density = head_metric(run, Metric::density, q), evict = head_metric(run, Metric::evict_ratio, q);
    const HeadMap share = head_metric(run, Metric::cache_share, q), chance = head_metric(run, Metric::chance, q);
    const HeadMap recall = head_metric(run, Metric::recall, q), mass = head_metric(run, Metric::mass_recall, q);
    for (int layer = 0; layer < run.model.n_layers; ++layer) {
      for (int head = 0; head < run.model.n_kv_heads; ++head) {
        INFO(policy << ", q " << q << ", layer " << layer << ", head " << head);
        const Counts c = count(run, layer, head, q);
        REQUIRE(same(density.at(layer, head), ratio(c.outside_kept, c.outside)));
        REQUIRE(same(evict.at(layer, head), 1 - ratio(c.eligible_kept, c.eligible)));
        REQUIRE(same(chance.at(layer, head), ratio(c.eligible_kept, c.eligible)));
        REQUIRE(same(share.at(layer, head), ratio(c.all_kept, q + 1)));
        REQUIRE(same(recall.at(layer, head), ratio(c.both, c.oracle)));
        REQUIRE(same(mass.at(layer, head), ratio(c.mass_kept, c.mass_oracle)));
      }
    }
  }
}

TEST_CASE("head_metric: a full cache has density 1, evict ratio 0, cache share 1 and recall 1", "[core][metric]") {
  const RunRecord run = random_run(1, {.policy = "full"});
  const int q = run.n_tokens() - 1;
  CHECK(mean(head_metric(run, Metric::density, q)) == 1);
  CHECK(mean(head_metric(run, Metric::evict_ratio, q)) == 0);
  CHECK(mean(head_metric(run, Metric::cache_share, q)) == 1);
  CHECK(mean(head_metric(run, Metric::recall, q)) == 1);
}

TEST_CASE("head_metric: sinks and window alone have evict ratio 1", "[core][metric]") {
  const RunRecord run = random_run(1, {.policy = "streaming:sinks=4,window=16"});
  CHECK(mean(head_metric(run, Metric::evict_ratio, 100)) == 1);
  CHECK(mean(head_metric(run, Metric::density, 100)) == Approx(4.0 / 85));  // the sinks, of tokens 0 ... 84
  CHECK(mean(head_metric(run, Metric::cache_share, 100)) == Approx(20.0 / 101));
}

TEST_CASE("head_metric: the oracle's recall and mass recall against itself are 1", "[core][metric]") {
  RunRecord run = random_run(5, {.policy = "kvpop:budget=40,sinks=4,window=16,decay=0.99"});
  run.evict_at = run.oracle_evict_at;
  for (int q : {20, 60, 179}) {
    for (const Metric metric : {Metric::recall, Metric::mass_recall}) {
      for (const float value : head_metric(run, metric, q).values) CHECK(value == 1);
    }
  }
  for (const float value : mean_recall(run).values) CHECK(value == 1);
}

TEST_CASE("head_metric: random retention recalls what chance says", "[core][metric]") {
  // 400 heads keep 60 of some 1000 eligible tokens each by scores that know nothing of the oracle. The overlap of one
  // head is hypergeometric, so its recall has a standard deviation of about sqrt(p (1 - p) / 60) = 0.031 at p = 0.06,
  // and the mean over 400 heads 0.0016; 5 of these are 0.008.
  RunRecord run = random_run(8, {.policy = "kvpop:budget=80,sinks=4,window=16",
                                 .n_layers = 20,
                                 .n_kv_heads = 20,
                                 .prompt_len = 1000,
                                 .n_new = 24});
  std::mt19937_64 random(77);
  for (int layer = 0; layer < 20; ++layer) {
    for (int head = 0; head < 20; ++head) {
      std::vector<float> scores(run.ids.size());
      for (float& score : scores) score = static_cast<float>(random() >> 40);
      policy_lifetimes(run.policy, run.n_positions, scores, run.queries(), run.evict_at.row(layer, head));
    }
  }
  const int q = run.n_tokens() - 1;
  const double chance = mean(head_metric(run, Metric::chance, q));
  CHECK(chance == Approx(60.0 / (1024 - 16 - 4)));
  CHECK(std::abs(mean(head_metric(run, Metric::recall, q)) - chance) < 0.008);
  // The made-up scores do know something.
  CHECK(mean(head_metric(random_run(8, {.n_layers = 8, .n_kv_heads = 8}), Metric::recall, 179)) > 0.4);
}

TEST_CASE("mean_recall: equals the mean of recall(q) from the budget on", "[core][metric]") {
  const std::string policy =
      GENERATE("kvpop:budget=64,sinks=4,window=16,decay=0.999", "kvpop:budget=20,sinks=0,window=16",
               "kvpop:budget=50,sinks=1,window=32,stride=4,decay=0.98");
  const bool fed = GENERATE(true, false);
  const RunRecord run = random_run(9, {.policy = policy, .last_token_fed = fed});
  const HeadMap got = mean_recall(run);
  std::vector<double> sum(got.values.size());
  int n = 0;
  for (int q = run.geometry().budget(); q < run.queries(); ++q, ++n) {
    const HeadMap recall = head_metric(run, Metric::recall, q);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += recall.values[i];
  }
  for (std::size_t i = 0; i < sum.size(); ++i)
    CHECK(got.values[i] == Approx(sum[i] / n).epsilon(1e-6));  // float32 terms
}

TEST_CASE("mean_recall: is NaN for a cache that never fills and for a run without oracle", "[core][metric]") {
  CHECK(std::isnan(mean(mean_recall(random_run(1, {.policy = "kvpop:budget=400"})))));
  CHECK(std::isnan(mean(mean_recall(random_run(1, {.oracle = false})))));
  CHECK(std::isnan(
      mean(mean_recall(random_run(1, {.policy = "streaming"})))));  // the oracle has no place to keep anything
  CHECK(std::isnan(mean(mean_recall(RunRecord()))));
}

TEST_CASE("head_metric: tokens undecided at the end count in no ratio", "[core][metric]") {
  const RunRecord fed = random_run(4), unfed = random_run(4, {.last_token_fed = false});
  const int last = unfed.n_tokens() - 1;
  for (const Metric metric : {Metric::density, Metric::recall, Metric::chance}) {
    CHECK(head_metric(unfed, metric, last).values == head_metric(unfed, metric, last - 1).values);
  }
  // Without the number of queries (an older trace) the open token at last - window is left out by its own mark.
  RunRecord old = unfed;
  old.n_queries = 0;
  const int eligible = last - 16 - 4;  // one of them is open
  CHECK(head_metric(old, Metric::chance, last).at(0, 0) == ratio(44, eligible));
  CHECK(head_metric(fed, Metric::chance, last).at(0, 0) == ratio(44, eligible + 1));
}

TEST_CASE("head_metric: tokens alive while a run is in progress count as kept", "[core][metric]") {
  RunRecord run = random_run(4);
  const HeadMap finished = head_metric(run, Metric::density, 179);
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) {
      for (std::int32_t& evict_at : run.evict_at.row(layer, head)) {
        if (evict_at == kNever) evict_at = kUndecided;  // as the events leave it until the end
      }
    }
  }
  run.status = RunStatus::running;
  CHECK(head_metric(run, Metric::density, 179).values == finished.values);
  finish_run(run, RunStatus::complete);
  CHECK(test::run_difference(run, random_run(4)).empty());
}

TEST_CASE("head_metric: regret is 1 - mass recall while the oracle is behind the run", "[core][metric]") {
  RunRecord run = random_run(4);
  run.oracle_horizon = 100;
  compute_oracle_lifetimes(run);
  const HeadMap recall = head_metric(run, Metric::mass_recall, 179), regret = head_metric(run, Metric::regret, 179);
  for (std::size_t i = 0; i < recall.values.size(); ++i) CHECK(regret.values[i] == Approx(1 - recall.values[i]));
  CHECK(regret.values == head_metric(run, Metric::regret, 99).values);
}

TEST_CASE("head_metric: missing data gives NaN, not a number", "[core][metric]") {
  const RunRecord run = random_run(2, {.oracle = false});
  CHECK(std::isnan(mean(head_metric(run, Metric::recall, 100))));
  CHECK(std::isnan(mean(head_metric(run, Metric::mass_recall, 100))));
  CHECK(std::isnan(mean(head_metric(run, Metric::density, 10))));  // nothing has left the window of 16
  CHECK(std::isnan(mean(head_metric(RunRecord(), Metric::density, 10))));
  CHECK(std::isnan(mean(head_metric(run, Metric::cache_share, -1))));
}

TEST_CASE("metrics: every one has name, title and definition and is found by its name", "[core][metric]") {
  CHECK(metric_list().size() == 8);
  for (const MetricInfo& info : metric_list()) {
    CHECK(find_metric(info.name) == &info);
    CHECK_FALSE(info.title.empty());
    CHECK(info.definition.size() > 20);
    CHECK(info.needs_oracle ==
          (info.metric == Metric::recall || info.metric == Metric::mass_recall || info.metric == Metric::regret));
  }
  CHECK(find_metric("nothing") == nullptr);
}

TEST_CASE("mean: leaves NaN out", "[core][metric]") {
  CHECK(mean({1, 3, {1, NAN, 2}}) == 1.5);
  CHECK(std::isnan(mean({1, 1, {NAN}})));
}

TEST_CASE("occupancy: sinks, window and long-range add up to the tokens that a query sees", "[core][metric]") {
  const std::string policy = GENERATE(from_range(std::begin(kPolicies), std::end(kPolicies)));
  const RunRecord run = random_run(6, {.policy = policy});
  const RetentionGeometry g = run.geometry();
  const Occupancy occupied = occupancy(run, 1, 2);
  REQUIRE(occupied.sinks.size() == run.ids.size());
  for (int q = 0; q < run.n_tokens(); ++q) {
    int n[5] = {};
    for (int t = 0; t < run.n_tokens(); ++t) {
      ++n[static_cast<int>(token_state(q, t, run.evict_at.row(1, 2)[t], g.n_sink, g.window))];
    }
    INFO(policy << ", q " << q);
    REQUIRE(occupied.sinks[q] == n[static_cast<int>(TokenState::sink)]);
    REQUIRE(occupied.window[q] == n[static_cast<int>(TokenState::window)]);
    REQUIRE(occupied.long_range[q] == n[static_cast<int>(TokenState::kept)]);
  }
}

TEST_CASE("compute_oracle_lifetimes: ranks by log(1e-6 + mass) and stops at its horizon", "[core][metric]") {
  RunRecord run = random_run(12, {.policy = "kvpop:budget=40,sinks=4,window=16,decay=0.99"});
  const std::vector<float>& mass = run.future_mass.row(1, 1);
  std::vector<float> target(mass.size());
  for (std::size_t t = 0; t < mass.size(); ++t) target[t] = std::log(1e-6f + mass[t]);
  std::vector<std::int32_t> expected(180);
  running_top_k(target, run.geometry(), 180, expected);
  CHECK(run.oracle_evict_at.row(1, 1) == expected);

  run.oracle_horizon = 100;
  compute_oracle_lifetimes(run);
  std::vector<std::int32_t> early(180, kUndecided);
  running_top_k(target, run.geometry(), 100, early);
  CHECK(run.oracle_evict_at.row(1, 1) == early);
  CHECK(run.oracle_evict_at.row(1, 1) != expected);
}
