// The sentences, word for word, on a run small enough to decide by hand.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "tests/support/random_run.h"

using namespace kvscope;

namespace {

/// One head, window 2, one sink, two places; scores and masses by position. Queries 0 ... 8.
///
///   token      0     1     2     3     4     5     6    7 8 (in the window at the end)
///   score      -   -1.0   0.5  -2.0   0.5   1.5   0.7
///   q = t + 2        3     4     5     6     7     8
///   kept           {1}  {1,2}   3 goes, 4 beats 1, 5 beats 4 (tie with 2: the younger), 6 beats 2
RunRecord hand_run() {
  RunRecord run;
  run.model.n_layers = run.model.n_kv_heads = run.model.n_heads = 1;
  run.policy = PolicySpec::parse("kvpop:budget=5,sinks=1,window=2");
  run.n_positions = run.n_queries = 9;
  for (const char* piece : {"<s>", " the", "\n", " \"x\"\t", "\xE2\x82", " Thus", "7", "8", "\x1B[2J"}) {
    run.pieces.push_back(piece);
    run.ids.push_back(1);
  }
  run.evict_at = LifetimeMap(1, 1);
  run.evict_at.resize(9, kUndecided);
  run.scores = HeadSeries<float>(1, 1);
  run.scores.row(0, 0) = {NAN, -1, 0.5f, -2, 0.5f, 1.5f, 0.7f, NAN, NAN};
  policy_lifetimes(run.policy, 9, run.scores.row(0, 0), 9, run.evict_at.row(0, 0), &run.contests);
  run.future_mass = HeadSeries<float>(1, 1);
  run.future_mass.row(0, 0) = {NAN, 0.5f, 0.25f, 0.3f, 0.1f, 0.05f, 0.4f, NAN, NAN};
  run.status = RunStatus::complete;
  return run;
}

std::string explain(const RunRecord& run, int t, int q) { return explain_token(run, 0, 0, t, q); }

/// Two heads under one pool.
RunRecord pooled_run(const char* policy) {
  RunRecord run = hand_run();
  run.model.n_kv_heads = run.model.n_heads = 2;
  run.policy = PolicySpec::parse(policy);
  run.prompt_len = 5;
  run.evict_at = LifetimeMap(1, 2);
  run.evict_at.resize(9, kUndecided);
  run.scores = HeadSeries<float>(1, 2);
  run.scores.row(0, 0) = {NAN, -1, 0.5f, -2, 0.5f, 1.5f, 0.7f, NAN, NAN};
  run.scores.row(0, 1) = {NAN, 3, 0.5f, 2, 1, 0.25f, 4, NAN, NAN};
  run.future_mass = HeadSeries<float>();
  run.contests.clear();
  pooled_lifetimes(run.policy, {9, 5, 9}, {0, 0, 1, 2}, run.scores, 0, run.evict_at, &run.contests);
  return run;
}

}  // namespace

TEST_CASE("explain_token: a run by hand has the lifetimes that the sentences speak of", "[core][explain]") {
  const RunRecord run = hand_run();
  CHECK(run.evict_at.row(0, 0) ==
        std::vector<std::int32_t>{kNever, 6, 8, 5, 7, kNever, kNever, kUndecided, kUndecided});
}

TEST_CASE("explain_token: a token displaced by a newcomer", "[core][explain]") {
  const RunRecord run = hand_run();
  const std::string sentence =
      "Token 1 \" the\" was evicted from layer 0 head 0 at query 6: its effective score −1.00 made it the weakest of "
      "2 kept tokens when token 4 \"\\xE2\\x82\", score 0.50, left the window (margin 1.50). Wrong: an oracle with "
      "the same 2 slots would have kept it.";
  CHECK(explain(run, 1, 6) == sentence);
  CHECK(explain(run, 1, 8) == sentence);  // at any later query too
  CHECK_THAT(explain(run, 2, 8),
             Catch::Matchers::EndsWith(" Correct: an oracle with the same 2 slots would have evicted it too."));
}

TEST_CASE("explain_token: a newcomer that loses", "[core][explain]") {
  CHECK(explain(hand_run(), 3, 5) ==
        "Token 3 \" \\\"x\\\"\\t\" was evicted from layer 0 head 0 at query 5: when it left the window, its effective "
        "score −2.00 was below the −1.00 of token 1 \" the\", the weakest of 2 kept tokens (margin 1.00). Wrong: an "
        "oracle with the same 2 slots would have kept it.");
}

TEST_CASE("explain_token: a newcomer that ties loses to the older token", "[core][explain]") {
  RunRecord run = hand_run();
  run.scores.row(0, 0)[3] = -1;
  run.contests.clear();
  policy_lifetimes(run.policy, 9, run.scores.row(0, 0), 9, run.evict_at.row(0, 0), &run.contests);
  CHECK_THAT(explain(run, 3, 5),
             Catch::Matchers::Contains("its effective score −1.00 equalled the −1.00 of token 1 \" the\", the "
                                       "weakest of 2 kept tokens. Ties keep the older token."));
}

TEST_CASE("explain_token: scores that nearly tie are shown with the decimals that differ", "[core][explain]") {
  RunRecord run = hand_run();
  run.scores.row(0, 0)[3] = -1.00025f;
  run.contests.clear();
  policy_lifetimes(run.policy, 9, run.scores.row(0, 0), 9, run.evict_at.row(0, 0), &run.contests);
  CHECK_THAT(explain(run, 3, 5), Catch::Matchers::Contains("−1.00025 was below") &&
                                     Catch::Matchers::Contains("the −1.00000 of token 1") &&
                                     Catch::Matchers::Contains("(margin 0.00025)."));
}

TEST_CASE("explain_token: kept tokens, by contest and by a free place", "[core][explain]") {
  const RunRecord run = hand_run();
  CHECK(explain(run, 6, 8) ==
        "Token 6 \"7\" is kept by layer 0 head 0 at query 8: when it left the window at query 8, its effective score "
        "0.70 beat the 0.50 of token 2 \"\\n\", the weakest of 2 kept tokens (margin 0.20). Correct: at query 8 an "
        "oracle with the same 2 slots keeps it too.");
  CHECK(explain(run, 2, 4) ==
        "Token 2 \"\\n\" is kept by layer 0 head 0 at query 4: when it left the window at query 4, there was room: 2 "
        "slots. It is evicted at query 8. No choice was needed at query 4, so there is no verdict.");
  CHECK_THAT(explain(run, 5, 8),
             Catch::Matchers::EndsWith("Wrong: at query 8 an oracle with the same 2 slots does not keep it."));
}

TEST_CASE("explain_token: sinks, the window, the future and what is not there", "[core][explain]") {
  const RunRecord run = hand_run();
  CHECK(explain(run, 0, 8) == "Token 0 \"<s>\" is a sink: layer 0 head 0 never evicts the first 1 token.");
  CHECK(explain(run, 3, 4) ==
        "Token 3 \" \\\"x\\\"\\t\" is in the window of query 4 in layer 0 head 0: the newest 2 tokens always stay. "
        "It leaves the window at query 5 and is evicted then.");
  CHECK(explain(run, 5, 6) ==
        "Token 5 \" Thus\" is in the window of query 6 in layer 0 head 0: the newest 2 tokens always stay. It leaves "
        "the window at query 7 and stays in the cache.");
  CHECK_THAT(explain(run, 8, 8), Catch::Matchers::Contains("after the end of the run, so no decision was made."));
  CHECK_THAT(explain(run, 8, 8), !Catch::Matchers::Contains("\x1B"));
  CHECK(explain(run, 5, 3) == "Token 5 \" Thus\" comes after query 3.");
  CHECK(explain(run, 9, 8) == "There is no token 9: the run has 9 tokens.");
  CHECK(explain(run, -1, 8) == "There is no token -1: the run has 9 tokens.");
  CHECK(explain_token(run, 1, 0, 0, 8) == "There is no layer 1 head 0.");
}

TEST_CASE("explain_token: of a pool the lowest that stayed in any head is named", "[core][explain]") {
  const RunRecord run = pooled_run("kvpop:budget=5,sinks=1,window=2,capacity=pooled");
  // Four places for both. Query 5: 3 and 1 of head 0 go (-2, -1). Query 6: 4 of both come; of three with 0.5 the oldest
  // stays, that of head 0. Query 7: 1.5 and 0.25 come. Query 8: 0.7 and 4 come,
  // 0.7 and the 1 of head 1 go.
  CHECK(run.evict_at.row(0, 0) == std::vector<std::int32_t>{kNever, 5, 7, 5, 6, kNever, 8, kUndecided, kUndecided});
  CHECK(run.evict_at.row(0, 1) ==
        std::vector<std::int32_t>{kNever, kNever, 6, kNever, 8, 7, kNever, kUndecided, kUndecided});
  CHECK(explain(run, 1, 8) ==
        "Token 1 \" the\" was evicted from layer 0 head 0 at query 5: its effective score −1.00 was below the pool "
        "cutoff of 0.50 (margin 1.50). The shared pool was full. This run has no oracle, so there is no verdict.");
  // The contest names the strongest that the head lost; the others are told by their own scores.
  CHECK_THAT(explain(run, 3, 8), Catch::Matchers::Contains("effective score −2.00 was below the pool cutoff of 0.50"));
  CHECK_THAT(
      explain_token(run, 0, 1, 2, 8),
      Catch::Matchers::Contains("equalled the pool cutoff of 0.50. Ties keep the older token, then the one in the "
                                "lower layer and head."));
  CHECK_THAT(
      explain_token(run, 0, 1, 1, 8),
      Catch::Matchers::Contains("its score 3 ranks among the best in the shared pool (2 slots per head on average)."));
  CHECK_THAT(explain_token(run, 0, 1, 1, 4),
             Catch::Matchers::Contains("the prompt is dense, and eviction starts at query 5."));
}

TEST_CASE("explain_token: a pool that is cut at times was not full, it was cut to have room", "[core][explain]") {
  const RunRecord run = pooled_run("kvpop:budget=5,sinks=1,window=2,capacity=pooled,interval=2");
  REQUIRE(run.evict_at.row(0, 0)[3] % 2 == 0);
  CHECK_THAT(explain(run, 3, 8), Catch::Matchers::Contains("The shared pool is trimmed every 2 queries."));
  const auto note = [](const char* policy) {
    const PolicySpec spec = PolicySpec::parse(policy);
    const RetentionGeometry geometry = spec.geometry(9);
    return policy_of(spec)
        .log({.spec = spec, .geometry = geometry, .plan = policy_of(spec).plan(spec, geometry), .local = false})
        .note;
  };
  CHECK(note("kvpop:budget=5,sinks=1,window=2,capacity=pooled,interval=2") ==
        "Nothing evicted yet. All heads share one pool (2 slots per head on average), trimmed every 2 queries.");
  CHECK_THAT(note("kvpop:budget=5,sinks=1,window=2,capacity=pooled"),
             Catch::Matchers::EndsWith("Nothing is evicted before the prompt ends."));
  const auto in_answer = [](const char* policy) {  // nothing is dense there
    const PolicySpec spec = PolicySpec::parse(policy);
    RetentionPlan plan = policy_of(spec).plan(spec, spec.geometry(9));
    plan.dense_prefill = false;
    return policy_of(spec).log({.spec = spec, .geometry = spec.geometry(9), .plan = plan, .local = false}).note;
  };
  CHECK(in_answer("kvpop:budget=5,sinks=1,window=2,capacity=pooled") ==
        "Nothing evicted yet. All heads share one pool (2 slots per head on average).");
  CHECK(note("h2o:budget=5,window=2") ==
        "Nothing evicted yet. The head holds up to 5 tokens. Nothing is evicted before the prompt ends.");
  CHECK(in_answer("h2o:budget=5,window=2") == "Nothing evicted yet. The head holds up to 5 tokens.");
}

TEST_CASE("explain_token: a threshold compares the score with the threshold", "[core][explain]") {
  RunRecord run = hand_run();
  run.policy = PolicySpec::parse("threshold:threshold=0.5,sinks=1,window=2");
  run.contests.clear();
  policy_lifetimes(run.policy, 9, run.scores.row(0, 0), 9, run.evict_at.row(0, 0), &run.contests);
  run.future_mass = HeadSeries<float>();
  CHECK(explain(run, 3, 8) ==
        "Token 3 \" \\\"x\\\"\\t\" was evicted from layer 0 head 0 at query 5: its score −2.00 is below the "
        "threshold 0.50 (margin 2.50). This run has no oracle, so there is no verdict.");
  CHECK(explain(run, 6, 8) ==
        "Token 6 \"7\" is kept by layer 0 head 0 at query 8: its score 0.70 reaches the threshold 0.50 (margin 0.20). "
        "This run has no oracle, so there is no verdict.");
}

TEST_CASE("explain_token: streaming and full caches say their rule", "[core][explain]") {
  RunRecord run = hand_run();
  run.policy = PolicySpec::parse("streaming:sinks=1,window=2");
  run.contests.clear();
  policy_lifetimes(run.policy, 9, {}, 9, run.evict_at.row(0, 0));
  run.future_mass = HeadSeries<float>();
  CHECK(explain(run, 5, 8) ==
        "Token 5 \" Thus\" was evicted from layer 0 head 0 at query 7: this policy keeps only 1 sink and the newest "
        "2 tokens. This run has no oracle, so there is no verdict.");
  const RunRecord full = test::random_run(1, {.policy = "full"});
  CHECK_THAT(explain(full, 10, 100),
             Catch::Matchers::Contains("is kept by layer 0 head 0 at query 100: a full cache evicts nothing."));
}

TEST_CASE("explain_token: a run whose contests were not recorded says so", "[core][explain]") {
  RunRecord run = hand_run();
  run.contests.clear();
  CHECK_THAT(explain(run, 1, 8),
             Catch::Matchers::StartsWith(
                 "Token 1 \" the\" was evicted from layer 0 head 0 at query 6. No contest was recorded for it."));
  CHECK_THAT(explain(run, 6, 8), Catch::Matchers::Contains("No contest was recorded"));
}

TEST_CASE("explain_token: every token of every query of random runs gets a sentence", "[core][explain]") {
  const std::string policy =
      GENERATE("full", "streaming:window=16", "threshold:window=16", "kvpop:budget=40,window=16");
  const RunRecord run = test::random_run(2, {.policy = policy});
  for (int t = 0; t < run.n_tokens(); t += 3) {
    for (int q = 0; q < run.n_tokens(); q += 7) {
      const std::string sentence = explain_token(run, 1, 2, t, q);
      INFO(sentence);
      REQUIRE(sentence.back() == '.');
      REQUIRE(sentence.find("o contest") == std::string::npos);
      REQUIRE(sentence.find("not recorded") == std::string::npos);
    }
  }
}

TEST_CASE("explain_token: once the policy has changed, the sentence says of which policy it speaks",
          "[core][explain]") {
  RunRecord run = hand_run();
  const std::string before = explain(run, 1, 6), after = explain(run, 1, 8);
  run.changes = {{7, PolicySpec::parse("streaming:sinks=1,window=2")}};
  CHECK(explain(run, 1, 6) == before);
  CHECK(explain(run, 1, 8) == after +
                                  " At query 7 the policy changed to streaming:sinks=1,window=2. This explanation is "
                                  "for the policy that the run began with.");
}
