// What a policy says of itself to the window: its log, its sliders, the parameters that mean something, its heads.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/read_metrics.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "tests/support/random_run.h"

using namespace kvscope;

namespace {

const ParameterInfo& parameter(const char* policy, std::string_view name) {
  for (const ParameterInfo& info : find_policy(policy)->parameters) {
    if (info.name == name) return info;
  }
  FAIL("no parameter " << name);
  throw;
}

std::string heads_note(const char* policy) {
  const PolicySpec spec = PolicySpec::parse(policy);
  return policy_of(spec).heads_note(spec, {6, 4, {}});
}

bool uses(const char* policy, const char* name) {
  const PolicySpec spec = PolicySpec::parse(policy);
  return policy_of(spec).uses(spec, name);
}

}  // namespace

TEST_CASE("slider_of: whole numbers reach the run, a share is no decay", "[core][policy]") {
  CHECK(parameter("streaming", "window").slider_of(8192).max == 8192);  // it ended at 256
  CHECK(parameter("streaming", "window").slider_of(8192).by_ratio);
  CHECK(parameter("tova", "protect").slider_of(4000).max == 4000);
  CHECK(parameter("kvpop", "decay").slider_of(0).min == 0.99);
  CHECK(parameter("sp-kv", "drop").slider_of(0).min == 0.001);  // 0.99 as of a decay
  CHECK(parameter("sp-kv", "drop").slider_of(0).max == 0.999);
  CHECK(parameter("hybrid", "full").slider_of(0).decimals == 3);  // 0.286 became 0.29
  for (const PolicyInfo& policy : policy_list()) {
    for (const ParameterInfo& info : policy.parameters) {
      INFO(policy.name << " " << info.name);
      const ParameterSlider slider = info.slider_of(1000);
      CHECK(slider.min < slider.max);
      CHECK(slider.min >= (info.word.empty() ? info.min : kWordValue));  // below the least number stands the word
      CHECK(slider.max <= info.max);
      CHECK(slider.min <= info.default_value);
    }
  }
}

TEST_CASE("uses: a parameter that the others make meaningless is said to be", "[core][policy]") {
  CHECK_FALSE(uses("hybrid:heads=a", "full"));
  CHECK_FALSE(uses("hybrid:heads=b", "full"));
  CHECK(uses("hybrid:heads=c", "full"));
  CHECK_FALSE(uses("hybrid:heads=d", "seed"));
  CHECK_FALSE(uses("hybrid", "threshold"));
  CHECK(uses("hybrid:on=threshold", "threshold"));
  CHECK_FALSE(uses("sp-kv", "drop"));
  CHECK(uses("sp-kv:pool=64", "drop"));
  CHECK(uses("kvpop", "decay"));
}

TEST_CASE("heads_note: how many heads are global, and by which rule", "[core][policy]") {
  CHECK(heads_note("hybrid:heads=a") ==
        "12 of 24 heads global (50 %), A: every fourth layer from layer 0, and the last");
  CHECK(heads_note("hybrid:heads=b") ==
        "8 of 24 heads global (33.3 %), B: every fourth layer from layer 3, and the last");
  CHECK(heads_note("hybrid:heads=c,full=0.25") == "6 of 24 heads global (25 %), C: drawn at random with the seed");
  CHECK(heads_note("duo:full=0.5") == "12 of 24 heads global (50 %)");
}

TEST_CASE("policy_at: the parameters that hold at a query", "[core][policy]") {
  const RunRecord run = test::random_run(3, {.n_changes = 2});
  CHECK(run.policy_at(0) == run.policy);
  CHECK(run.policy_at(run.changes[0].q - 1) == run.policy);
  CHECK(run.policy_at(run.changes[0].q) == run.changes[0].policy);
  CHECK(run.policy_at(run.changes[1].q - 1) == run.changes[0].policy);
  CHECK(run.policy_at(1 << 20) == run.changes[1].policy);
}

TEST_CASE("read_share: what the pages hold of what is kept", "[core][metric]") {
  RunRecord run = test::random_run(3, {.policy = "full"});
  CHECK(std::isnan(mean(head_metric(run, Metric::read_share, 100))));  // nothing was recorded
  run.reads = {{.q = 100, .layer = 0, .kv_head = 1, .pages = {0, 2, 6}}};
  const HeadReads reads(run, 0, 1, 100);
  CHECK(reads.selects());
  CHECK(reads.reads(15));
  CHECK_FALSE(reads.reads(16));
  CHECK(reads.n_read() == 16 + 16 + 5);  // page 6 holds 96 ... 100
  CHECK(head_metric(run, Metric::read_share, 100).at(0, 1) == Approx(37 / 101.0));
  CHECK(head_metric(run, Metric::read_share, 100).at(0, 0) == 1);  // it read all
  CHECK(head_metric(run, Metric::read_share, 99).at(0, 1) == 1);
  run.evict_at.row(0, 1)[3] = 50;  // its slot was used again: positions are not known, their number is
  CHECK_FALSE(HeadReads(run, 0, 1, 100).tells_tokens());
  CHECK(HeadReads(run, 0, 1, 100).n_read() == 48);
  CHECK(HeadReads(run, 0, 1, 100).n_kept() == 100);
}

TEST_CASE("explain_token: nothing is said of queries that were not made", "[core][explain]") {
  RunRecord run = test::random_run(3);
  run.status = RunStatus::running;
  run.n_queries = 0;
  CHECK_THAT(explain_token(run, 0, 0, 30, 150), Catch::Matchers::EndsWith("query 30 has not run yet."));
  CHECK(occupancy(run, 0, 0).long_range[150] == 0);
  run.n_queries = 60;
  CHECK_THAT(explain_token(run, 0, 0, 2, 150), Catch::Matchers::Contains("is a sink"));
  CHECK_THAT(explain_token(run, 0, 0, 60, 150), Catch::Matchers::Contains("is undecided in"));
}
