#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "engine/core/policy/gates_of_model.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using Catch::Matchers::Contains;
using test::random_run;
using test::run_difference;

TEST_CASE("what_if: a run's own policy gives the run again", "[core][whatif]") {
  const std::string policy = GENERATE("full", "streaming:sinks=4,window=16", "threshold:threshold=0.1,window=16",
                                      "kvpop:budget=64,window=16,decay=0.999,stride=4",
                                      "kvpop:budget=30,window=16,decay=0.99,capacity=pooled");
  const bool fed = GENERATE(true, false);
  const RunRecord run = random_run(1, {.policy = policy, .last_token_fed = fed});
  CHECK(run_difference(what_if(run, run.policy), run) == "");
}

TEST_CASE("what_if: a preview equals a run whose scores were the same", "[core][whatif]") {
  // random_run() draws scores and masses before it looks at the policy, so only lifetimes, contests and oracle differ.
  const std::string from =
      GENERATE("full", "threshold:threshold=0.1,window=64", "kvpop:budget=100,window=64,decay=0.9");
  const std::string to = GENERATE("kvpop:budget=90,sinks=2,window=64,decay=0.99", "kvpop:keep=50%,window=64",
                                  "threshold:threshold=-0.3,sinks=0,window=64", "streaming:sinks=1,window=64", "full",
                                  "kvpop:budget=90,window=64,capacity=pooled");
  INFO(from << " -> " << to);
  const PolicySpec wanted = policy_after(PolicySpec::parse(to), PolicySpec::parse(from));
  const RunRecord expected = random_run(7, {.policy = wanted.to_string()});
  CHECK(run_difference(what_if(random_run(7, {.policy = from}), PolicySpec::parse(to)), expected) == "");
}

TEST_CASE("what_if: a larger budget keeps a superset at every query", "[core][whatif]") {
  const RunRecord run = random_run(3, {.policy = "kvpop:budget=40,window=16"});
  const RunRecord more = what_if(run, PolicySpec::parse("kvpop:budget=60,window=16"));
  bool differs = false;
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      for (int t = 0; t < run.n_tokens(); ++t) {
        REQUIRE(more.evict_at.row(layer, head)[t] >= run.evict_at.row(layer, head)[t]);
        differs |= more.evict_at.row(layer, head)[t] != run.evict_at.row(layer, head)[t];
      }
    }
  }
  CHECK(differs);
}

TEST_CASE("what_if: heads that share a budget are previewed together, from the end of the prompt on",
          "[core][whatif]") {
  const RunRecord run = random_run(3, {.policy = "kvpop:budget=40,window=16"});
  const RunRecord shared = what_if(run, PolicySpec::parse("kvpop:budget=40,window=16,capacity=pooled"));
  CHECK(shared.policy.to_string() == "kvpop:budget=40,sinks=4,window=16,decay=1,stride=1,capacity=pooled");
  const int top_k = 40 - 4 - 16, n_heads = 6;
  std::set<int> sizes;
  for (std::int32_t q = 0; q < run.queries(); ++q) {
    int held = 0;
    for (int head = 0; head < n_heads; ++head) {
      const auto& row = shared.evict_at.row(head / 3, head % 3);
      int of_head = 0;
      for (std::int32_t t = 4; t <= q - 16; ++t) of_head += visible(q, t, row[static_cast<std::size_t>(t)]);
      if (q < run.prompt_len) REQUIRE(of_head == std::max(0, q - 16 - 3));  // dense
      held += of_head;
      if (q == run.queries() - 1) sizes.insert(of_head);
    }
    if (q >= run.prompt_len) REQUIRE(held == n_heads * top_k);
  }
  CHECK(sizes.size() > 1);  // heads differ in how much they keep
  CHECK(mean(head_metric(shared, Metric::density, run.queries() - 1)) ==
        Approx(static_cast<double>(top_k + 4) / (run.queries() - 16)));
  // The scores of all heads are needed; one head by itself has no lifetimes.
  std::vector<std::int32_t> alone(180);
  CHECK_THROWS_WITH(policy_lifetimes(shared.policy, 180, run.scores.row(0, 0), 180, alone),
                    Contains("what a head keeps depends on all other heads"));
  const RunRecord without = random_run(2, {.policy = "full", .scorer = false});
  CHECK_THROWS_WITH(what_if(without, PolicySpec::parse("kvpop:budget=100,capacity=pooled")),
                    Contains("no recorded score for token 4"));
  RunRecord bare = without;
  bare.scores = HeadSeries<float>();
  CHECK_THROWS_WITH(what_if(bare, PolicySpec::parse("random:budget=100,capacity=pooled")), Contains("0 scores"));
}

TEST_CASE("what_if: what was written holds, and what was not is as the run had it", "[core][whatif]") {
  // Say that the run's threshold and sinks were its gate's own. With the method's instead, its own policy was another one.
  const RunRecord run = random_run(2, {.policy = "threshold:threshold=0.3,sinks=2,window=16"});
  CHECK(run_difference(what_if(run, PolicySpec::parse("threshold")), run) == "");
  const RunRecord written = what_if(run, PolicySpec::parse("threshold:threshold=0"));
  CHECK(written.policy.value("threshold") == 0);  // the method's own number, but somebody wrote it
  CHECK(written.policy.count("sinks") == 2);
  for (int t = 2; t < run.n_tokens() - 16; ++t) {
    const auto i = static_cast<std::size_t>(t);
    REQUIRE((written.evict_at.row(1, 1)[i] == kNever) == (run.scores.row(1, 1)[i] >= 0));
  }
}

TEST_CASE("what_if: another window of a delayed scorer is refused with the reason", "[core][whatif]") {
  const std::string from = GENERATE("kvpop:budget=80,window=64", "threshold:window=64", "full", "streaming:window=64");
  const RunRecord run = random_run(2, {.policy = from});
  for (const char* to : {"kvpop:budget=80,window=32", "threshold:window=65"}) {
    INFO(from << " -> " << to);
    CHECK_THROWS_WITH(what_if(run, PolicySpec::parse(to)),
                      Contains("delayed") && Contains("window=64") && Contains("run the model with the new window"));
  }
}

TEST_CASE("what_if: scores of a gate that looks ahead go with every window that waits for them", "[core][whatif]") {
  constexpr int kAhead = 12, kWindow = 16;
  RunRecord run = random_run(3, {.policy = "threshold:threshold=0.3,sinks=2,window=16"});
  run.scorer = {.kind = "sp_kv", .delay = kAhead, .text = "sp kv, delay 12"};
  const int n = run.queries();
  // The run has scores of what left its window; a shorter delay knows four more, and no more.
  for (int head = 0; head < 6; ++head) {
    auto& scores = run.scores.row(head / 3, head % 3);
    for (int t = n - kWindow; t < n - kAhead; ++t) scores[static_cast<std::size_t>(t)] = t % 2 == 0 ? 1.0f : -1.0f;
    for (int t = n - kAhead; t < n; ++t) REQUIRE(std::isnan(scores[static_cast<std::size_t>(t)]));
  }
  for (const int window : {kAhead, kWindow, 40}) {
    CAPTURE(window);
    const RunRecord preview = what_if(run, PolicySpec::parse("threshold:window=" + std::to_string(window)));
    for (int head = 0; head < 6; ++head) {
      const auto& evict_at = preview.evict_at.row(head / 3, head % 3);
      for (int t = 2; t < n - window; ++t) {
        const bool stays = run.scores.row(head / 3, head % 3)[static_cast<std::size_t>(t)] >= 0.3f;
        REQUIRE(evict_at[static_cast<std::size_t>(t)] == (stays ? kNever : t + window));
      }
    }
  }
  CHECK(run_difference(what_if(run, PolicySpec::parse("threshold")), run) == "");
  CHECK_THROWS_WITH(
      what_if(run, PolicySpec::parse("threshold:window=11")),
      Contains("a window of 11 tokens; expected at least 12, because the run's gate looks that many tokens ahead"));
}

TEST_CASE("what_if: the delay is taken from the window where the scorer's description does not tell",
          "[core][whatif]") {
  RunRecord run = random_run(2, {.policy = "kvpop:budget=80,window=32"});
  run.scorer.delay = -1;
  CHECK_THROWS_AS(what_if(run, PolicySpec::parse("kvpop:budget=80,window=16")), Error);
  CHECK_NOTHROW(what_if(run, PolicySpec::parse("kvpop:budget=60,window=32")));
}

TEST_CASE("what_if: sinks and window alone are previewed for any window, without the oracle of the old one",
          "[core][whatif]") {
  const RunRecord run = random_run(2, {.policy = "kvpop:budget=80,window=64"});
  const RunRecord preview = what_if(run, PolicySpec::parse("streaming:sinks=4,window=76"));
  RunRecord expected = random_run(2, {.policy = "streaming:sinks=4,window=76", .oracle = false});
  CHECK(preview.evict_at == expected.evict_at);
  CHECK(preview.future_mass.empty());
  CHECK(preview.future.rms.empty());
  CHECK(std::isnan(mean(head_metric(preview, Metric::recall, 150))));
}

TEST_CASE("what_if: missing scores are refused, and the first missing token is named", "[core][whatif]") {
  const RunRecord without = random_run(2, {.policy = "full", .scorer = false});
  CHECK_THROWS_WITH(what_if(without, PolicySpec::parse("kvpop:budget=100")), Contains("no recorded score for token 4"));
  CHECK_NOTHROW(what_if(without, PolicySpec::parse("streaming")));
  RunRecord bare = without;
  bare.scores = HeadSeries<float>();
  CHECK_THROWS_AS(what_if(bare, PolicySpec::parse("threshold")), Error);
  // Sinks that were never scored cannot be made to compete.
  RunRecord sinks = random_run(2, {.policy = "kvpop:budget=80,window=64,sinks=4"});
  for (int t = 0; t < 4; ++t) sinks.scores.row(1, 1)[t] = NAN;
  CHECK_NOTHROW(what_if(sinks, PolicySpec::parse("kvpop:budget=80,window=64,sinks=4")));
  CHECK_THROWS_WITH(what_if(sinks, PolicySpec::parse("kvpop:budget=80,window=64,sinks=2")), Contains("token 2"));
}

TEST_CASE("what_if: a budget that cannot be is an error, and the run is untouched", "[core][whatif]") {
  const RunRecord run = random_run(2, {.policy = "kvpop:budget=80,window=64"});
  CHECK_THROWS_AS(what_if(run, PolicySpec::parse("kvpop:keep=10%,window=64")), Error);
  CHECK(run_difference(run, random_run(2, {.policy = "kvpop:budget=80,window=64"})) == "");
}

TEST_CASE("what_if: works on a run in progress as far as it has come", "[core][whatif]") {
  const RunRecord whole = random_run(5, {.policy = "kvpop:budget=90,window=64"});
  RunRecord part = whole;
  part.status = RunStatus::running;
  part.n_queries = 150;
  part.future_mass = HeadSeries<float>();
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) part.scores.row(layer, head).resize(150 - 64);
  }
  const RunRecord preview = what_if(part, PolicySpec::parse("kvpop:budget=80,window=64"));
  const RunRecord later = what_if(whole, PolicySpec::parse("kvpop:budget=80,window=64"));
  for (int t = 0; t < 180; ++t) {
    const int at = later.evict_at.row(1, 0)[t];
    if (at < 150)
      CHECK(preview.evict_at.row(1, 0)[t] == at);
    else
      CHECK(preview.evict_at.row(1, 0)[t] >= kUndecided);
  }
}

TEST_CASE("what_if: a preview holds one policy for the whole run, and a run that changed its own says so",
          "[core][whatif]") {
  const RunRecord plain = random_run(4), changed = random_run(4, {.page_reads = true, .n_changes = 2});
  REQUIRE(changed.changes.size() == 2);
  const RunRecord preview = what_if(changed, PolicySpec::parse("kvpop:budget=50,window=16"));
  CHECK(preview.changes.empty());
  CHECK(preview.reads.empty());
  CHECK(run_difference(preview, what_if(plain, PolicySpec::parse("kvpop:budget=50,window=16"))) == "");
  CHECK(what_if_note(plain, plain) == "");
  CHECK(what_if_note(changed, preview) ==
        "the recorded run changed its policy at queries 120, 150; the preview uses one policy for the whole run");
}
