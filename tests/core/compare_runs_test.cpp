#include "engine/core/study/measure/compare_runs.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/study/measure/lifetime_differences.h"
#include "engine/core/support/error.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using kvscope::test::random_run;

namespace {

/// One layer, one head, window 2, no sinks; six tokens.
RunRecord small_run(std::vector<std::int32_t> ids, std::vector<std::int32_t> evict_at, std::vector<float> logprobs) {
  RunRecord run;
  run.model = {.name = "small", .n_layers = 1, .n_heads = 1, .n_kv_heads = 1, .head_dim = 1, .vocab_size = 100};
  run.policy = PolicySpec::parse("streaming:sinks=0,window=2");
  run.ids = std::move(ids);
  run.n_positions = run.n_queries = run.n_tokens();
  run.prompt_len = 2;
  run.evict_at = LifetimeMap(1, 1);
  run.evict_at.row(0, 0) = std::move(evict_at);
  run.logprobs = std::move(logprobs);
  run.status = RunStatus::complete;
  return run;
}

}  // namespace

TEST_CASE("compare: texts part where the tokens differ, and everything is counted before", "[core][compare]") {
  const float nan = std::nanf("");
  // At q = 3, the last common position, tokens t <= 1 have left the window: a keeps {0, 1}, b keeps {1}.
  const RunRecord a =
      small_run({5, 6, 7, 8, 9, 10}, {kNever, kNever, 4, kNever, kUndecided, kUndecided}, {nan, -1, -2, -3, -50, -60});
  const RunRecord b =
      small_run({5, 6, 7, 8, 1, 10}, {3, kNever, kNever, 5, kUndecided, kUndecided}, {nan, -1, -1, -1, -70, -80});
  const RunComparison c = compare_runs(a, b);
  CHECK(c.n_common == 4);
  CHECK(c.diverged);
  CHECK(c.same_prompt);
  CHECK(c.q == 3);
  CHECK(c.overlap.at(0, 0) == 0.5f);
  CHECK(c.n_scored == 3);
  CHECK(c.nll_a == 2);
  CHECK(c.nll_b == 1);
}

TEST_CASE("compare: a run is like itself", "[core][compare]") {
  const RunRecord run = random_run(4);
  const RunComparison c = compare_runs(run, run);
  CHECK(c.n_common == run.n_tokens());
  CHECK_FALSE(c.diverged);
  CHECK(c.nll_a == c.nll_b);
  for (const float overlap : c.overlap.values) CHECK(overlap == 1);
}

TEST_CASE("compare: a run that ends earlier has not diverged, and one of another prompt has, in it",
          "[core][compare]") {
  const RunRecord whole = random_run(4);
  RunRecord shorter = whole;
  shorter.ids.resize(150);
  shorter.logprobs.resize(150);
  shorter.n_queries = 149;
  RunComparison c = compare_runs(whole, shorter);
  CHECK(c.n_common == 150);
  CHECK_FALSE(c.diverged);
  CHECK(c.q == 148);  // the last token of the shorter one was never fed
  RunRecord other = whole;
  other.ids[10] += 1;
  c = compare_runs(whole, other);
  CHECK(c.diverged);
  CHECK_FALSE(c.same_prompt);
  CHECK(c.n_common == 10);
  other.ids[0] += 1;
  c = compare_runs(whole, other);
  CHECK(c.q == -1);
  CHECK(std::isnan(c.overlap.at(0, 0)));
  CHECK(std::isnan(c.nll_a));
}

TEST_CASE("compare: runs without lifetimes or log-probabilities have no overlap and no NLL", "[core][compare]") {
  const RunRecord run = random_run(4);
  RunRecord bare = run;
  bare.evict_at = LifetimeMap();
  bare.logprobs.clear();
  const RunComparison c = compare_runs(run, bare);
  CHECK(c.n_common == run.n_tokens());
  CHECK(std::isnan(mean(c.overlap)));
  CHECK(std::isnan(c.nll_b));
}

TEST_CASE("compare: models of another shape cannot be compared", "[core][compare]") {
  CHECK_THROWS_AS(compare_runs(random_run(1), random_run(1, {.n_layers = 3})), Error);
}

TEST_CASE("lifetimes of a run decoded again are compared as far as both have seen", "[core][compare]") {
  RunRecord before = small_run({1, 2, 3, 4}, {2, kNever, 4, kUndecided}, {}), after = before;
  before.n_queries = 4, after.n_queries = 6;
  after.ids = {1, 2, 3, 4, 5, 6};
  after.evict_at.row(0, 0) = {2, 5, 4, 6, kNever, kUndecided};  // 5 and 6 lie behind what `before` has seen
  LifetimeDifferences found = lifetime_differences(before, after);
  CHECK(found.n == 1);  // of query 4 only one of them knows
  CHECK(found.n_different == 0);
  after.evict_at.row(0, 0)[0] = 3;  // another moment
  after.evict_at.row(0, 0)[1] = 3;  // evicted, and was not
  found = lifetime_differences(before, after);
  CHECK(found.n == 2);
  CHECK(found.n_different == 2);
  CHECK(lifetime_differences(after, before).n_different == 2);
  CHECK(lifetime_differences(before, before).n_different == 0);
}
