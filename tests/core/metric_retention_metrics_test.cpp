#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "engine/core/study/measure/retention_metrics.h"
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
  int all_kept = 0;
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
    const HeadMap share = head_metric(run, Metric::cache_share, q);
    for (int layer = 0; layer < run.model.n_layers; ++layer) {
      for (int head = 0; head < run.model.n_kv_heads; ++head) {
        INFO(policy << ", q " << q << ", layer " << layer << ", head " << head);
        const Counts c = count(run, layer, head, q);
        REQUIRE(same(density.at(layer, head), ratio(c.outside_kept, c.outside)));
        REQUIRE(same(evict.at(layer, head), 1 - ratio(c.eligible_kept, c.eligible)));
        REQUIRE(same(share.at(layer, head), ratio(c.all_kept, q + 1)));
      }
    }
  }
}

TEST_CASE("the normalised cache size is the mean of the cache share over all heads and queries", "[core][metric]") {
  const std::string policy = GENERATE(from_range(std::begin(kPolicies), std::end(kPolicies)));
  const RunRecord run = random_run(5, {.policy = policy});
  double sum = 0;
  for (int q = 0; q < run.queries(); ++q) sum += mean(head_metric(run, Metric::cache_share, q));
  CHECK(mean_cache_size(run) == Approx(sum / run.queries()).epsilon(1e-6));  // shares are float
  CHECK(mean_cache_size(random_run(1, {.policy = "full"})) == 1);
  CHECK(std::isnan(mean_cache_size(RunRecord{})));
}

TEST_CASE("cache size and evictions leave out heads that the model itself makes local", "[core][metric]") {
  const RunRecord whole = random_run(5, {.policy = "threshold:threshold=0.1,sinks=2,window=16"});
  RunRecord run = whole;
  std::vector<HeadRule>& rules = test::own_rules(run);
  for (std::size_t i = 0; i < rules.size(); i += 2) rules[i].locality = Locality::model;
  double size = 0, evicted = 0;
  int n_heads = 0;
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      if (run.is_local_by_model(layer, head)) continue;
      ++n_heads;
      evicted += std::ranges::count_if(run.evict_at.row(layer, head), [&](int at) { return at < run.queries(); });
      for (int q = 0; q < run.queries(); ++q) size += count(whole, layer, head, q).all_kept / (q + 1.0);
    }
  }
  REQUIRE(n_heads == static_cast<int>(rules.size() / 2));
  CHECK(mean_cache_size(run) == Approx(size / n_heads / run.queries()));
  CHECK(count_evictions(run).tokens == Approx(evicted / n_heads));
  for (HeadRule& rule : rules) rule.locality = Locality::model;
  CHECK(std::isnan(mean_cache_size(run)));
  CHECK(count_evictions(run).queries == 0);
}

namespace {

/// Tokens of all heads that leave at q, and whether one of them is older than its head's window, by hand.
struct Leaving {
  int tokens = 0;
  bool over = false;
};
Leaving leaving(const RunRecord& run, int q) {
  Leaving out;
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      for (int t = 0; t < run.n_tokens(); ++t) {
        if (run.evict_at.row(layer, head)[t] != q) continue;
        ++out.tokens;
        out.over = out.over || q - t > run.geometry(layer, head).window;
      }
    }
  }
  return out;
}

void check_evictions(const RunRecord& run) {
  int tokens = 0, queries = 0, overflows = 0;
  for (int q = 0; q < run.queries(); ++q) {
    const Leaving now = leaving(run, q);
    tokens += now.tokens;
    queries += now.tokens > 0;
    overflows += now.over;
  }
  const EvictionCount count = count_evictions(run);
  CHECK(count.tokens == Approx(tokens / 6.0));
  CHECK(count.queries == queries);
  CHECK(count.overflows == overflows);
}

}  // namespace

TEST_CASE("evictions are counted by token and query, and overflows where one is older than its head's window",
          "[core][metric]") {
  const std::string policy = GENERATE(from_range(std::begin(kPolicies), std::end(kPolicies)));
  CAPTURE(policy);
  RunRecord run = random_run(6, {.policy = policy});
  check_evictions(run);
  const EvictionCount count = count_evictions(run);
  CHECK((count.queries > 0) == (policy != "full"));
  // Only a budget makes tokens leave later than their window does; a threshold or the window alone does not.
  CHECK((count.overflows > 0) == policy.starts_with("kvpop"));
  CHECK(count_evictions(RunRecord{}).overflows == 0);
  // The windows of the heads count, not the policy's.
  const int window = run.geometry().window;
  test::set_heads(run, &HeadRule::window, std::vector<std::int32_t>{window, window, window, window, window, 3});
  check_evictions(run);
  CHECK((count_evictions(run).overflows > 0) == (policy != "full"));
}

TEST_CASE("a gate without a pool never overflows, and with one it does at each cut", "[core][metric]") {
  RunRecord run = random_run(7, {.policy = "threshold:threshold=0.1,sinks=2,window=16"});
  REQUIRE(count_evictions(run).overflows == 0);
  REQUIRE(count_evictions(run).queries > 0);
  // As a pool cuts: at 60 and 110 the older half of what is left outside the window goes, in two of the heads.
  for (const int cut : {60, 110}) {
    for (const int layer : {0, 1}) {
      for (int t = 2; t < (cut - 16) / 2; ++t) {
        std::int32_t& evict_at = run.evict_at.row(layer, layer)[t];
        if (evict_at > cut) evict_at = cut;
      }
    }
  }
  CHECK(count_evictions(run).overflows == 2);
  check_evictions(run);
}

TEST_CASE("head_metric: a full cache has density 1, evict ratio 0, cache share 1 and no recall", "[core][metric]") {
  const RunRecord run = random_run(1, {.policy = "full"});
  const int q = run.n_tokens() - 1;
  CHECK(mean(head_metric(run, Metric::density, q)) == 1);
  CHECK(mean(head_metric(run, Metric::evict_ratio, q)) == 0);
  CHECK(mean(head_metric(run, Metric::cache_share, q)) == 1);
  CHECK(std::isnan(mean(head_metric(run, Metric::recall, q))));  // nothing was chosen
  CHECK(mean(head_metric(run, Metric::mass_kept, q)) == 1);
}

TEST_CASE("head_metric: sinks and window alone have evict ratio 1", "[core][metric]") {
  const RunRecord run = random_run(1, {.policy = "streaming:sinks=4,window=16"});
  CHECK(mean(head_metric(run, Metric::evict_ratio, 100)) == 1);
  CHECK(mean(head_metric(run, Metric::density, 100)) == Approx(4.0 / 85));  // the sinks, of tokens 0 ... 84
  CHECK(mean(head_metric(run, Metric::cache_share, 100)) == Approx(20.0 / 101));
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
  CHECK(head_metric(old, Metric::evict_ratio, last).at(0, 0) == 1 - ratio(44, eligible));
  CHECK(head_metric(fed, Metric::evict_ratio, last).at(0, 0) == 1 - ratio(44, eligible + 1));
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
  CHECK(metric_list().size() == 15);
  for (const MetricInfo& info : metric_list()) {
    CHECK(find_metric(info.name) == &info);
    CHECK_FALSE(info.title.empty());
    CHECK(info.definition.size() > 20);
    const bool counts_lifetimes = info.metric == Metric::density || info.metric == Metric::evict_ratio ||
                                  info.metric == Metric::cache_share || info.metric == Metric::output_error ||
                                  info.metric == Metric::read_mass || info.metric == Metric::best_read_mass ||
                                  info.metric == Metric::read_share;
    CHECK(info.needs_oracle == !counts_lifetimes);
  }
  CHECK(find_metric("nothing") == nullptr);
}

TEST_CASE("mean: leaves NaN out", "[core][metric]") {
  CHECK(mean({1, 3, {1, NAN, 2}}) == 1.5);
  CHECK(std::isnan(mean({1, 1, {NAN}})));
}

TEST_CASE("occupancy: sinks, window and long-range add up to the tokens that a query sees", "[core][metric]") {
  const std::string policy = GENERATE(from_range(std::begin(kPolicies), std::end(kPolicies)));
  RunRecord run = random_run(6, {.policy = policy});
  if (GENERATE(false, true)) {  // a head with another window and other sinks than the policy's
    run.heads.assign(6, rule_of(run.geometry()));
    run.heads.back().window += 3, run.heads.back().n_sink += 2;
  }
  const RetentionGeometry g = run.geometry(1, 2);
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

TEST_CASE("head_metric: a failed run has the numbers of a cancelled one", "[core][metric]") {
  // W2: the engine dies in mid-run and nobody says of the survivors that they are kept.
  RunRecord failed = random_run(4);
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) {
      for (std::int32_t& evict_at : failed.evict_at.row(layer, head)) {
        if (evict_at == kNever) evict_at = kUndecided;
      }
    }
  }
  RunRecord cancelled = failed;
  failed.status = RunStatus::failed;
  finish_run(cancelled, RunStatus::cancelled);
  for (const MetricInfo& info : metric_list()) {
    for (const int q : {20, 100, 179}) {
      INFO(info.name << ", q " << q);
      const HeadMap a = head_metric(failed, info.metric, q), b = head_metric(cancelled, info.metric, q);
      for (std::size_t i = 0; i < a.values.size(); ++i) REQUIRE(same(a.values[i], b.values[i]));
    }
  }
}

TEST_CASE("head_metric: while the prompt passes there is nothing to count", "[core][metric]") {
  // W5: all tokens are there, no query was made.
  RunRecord run = random_run(4);
  run.status = RunStatus::running;
  run.n_queries = 0;
  for (const MetricInfo& info : metric_list()) CHECK(std::isnan(mean(head_metric(run, info.metric, 150))));
}

TEST_CASE("The value of one head is the one that the map of all heads has") {
  const RunRecord run = GENERATE(test::random_run(3), test::random_run(4, {.output_error = true}),
                                 test::random_run(3, {.policy = "full", .page_reads = true}));
  for (const MetricInfo& info : metric_list()) {
    for (const std::int32_t q : {0, 40, 179}) {
      for (int head = 0; head < 6; ++head) {
        const float value = head_value(run, info.metric, head / 3, head % 3, q);
        const float in_map = head_metric(run, info.metric, q).at(head / 3, head % 3);
        INFO(info.name);
        CHECK((info.needs_oracle ? std::isnan(value) : value == in_map || (std::isnan(value) && std::isnan(in_map))));
      }
    }
  }
}
