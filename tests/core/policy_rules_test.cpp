// Every policy that follows from scores, on a text of some ten tokens whose lifetimes were worked out by hand.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/lifetime/lifetime_rule.h"
#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"
#include "kernels/rule/counter_random.h"
#include "tests/support/expect_error.h"

using namespace kvscope;
using Catch::Matchers::Contains;

namespace {

using Lifetimes = std::vector<std::int32_t>;
constexpr std::int32_t N = kNever, U = kUndecided;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

/// Lifetimes of n tokens, each of which was a query.
Lifetimes lifetimes(const std::string& policy, const std::vector<float>& scores, int n,
                    std::vector<Contest>* contests = nullptr, const HeadIndex& head = {}) {
  Lifetimes out(static_cast<std::size_t>(n));
  policy_lifetimes(PolicySpec::parse(policy), n, head, scores, n, out, contests);
  return out;
}

std::vector<std::uint8_t> local_heads(const std::string& policy, const HeadsOfModel& heads) {
  const PolicySpec spec = PolicySpec::parse(policy);
  return policy_of(spec).local_heads(spec, heads);
}

RetentionPlan plan_of(const std::string& policy) {
  const PolicySpec spec = PolicySpec::parse(policy);
  return policy_of(spec).plan(spec, spec.geometry(1000));
}

Contest contest(std::int32_t q, std::int32_t newcomer, float newcomer_score, std::int32_t boundary,
                float boundary_score, std::int32_t evicted) {
  return {.q = q,
          .newcomer = newcomer,
          .boundary = boundary,
          .newcomer_effective = newcomer_score,
          .boundary_effective = boundary_score,
          .evicted = evicted};
}

}  // namespace

TEST_CASE("policy rules: the full cache decides NEVER for whatever left its window of 64", "[core][policy]") {
  CHECK(lifetimes("full", {}, 10) == Lifetimes(10, U));
  Lifetimes expected(67, U);  // 67 - 64 = 3 have left
  expected[0] = expected[1] = expected[2] = N;
  CHECK(lifetimes("full", {}, 67) == expected);
}

TEST_CASE("policy rules: streaming drops every token but a sink window tokens after it came", "[core][policy]") {
  // Query 6 sees t > 6 - 4: token 2 is gone. Query 11, the last, sees 8 ... 11.
  CHECK(lifetimes("streaming:sinks=2,window=4", {}, 12) == Lifetimes{N, N, 6, 7, 8, 9, 10, 11, U, U, U, U});
  CHECK(lifetimes("streaming:sinks=0,window=4", {}, 8) == Lifetimes{4, 5, 6, 7, U, U, U, U});
  // window = 1: only the query's own token.
  CHECK(lifetimes("streaming:sinks=1,window=1", {}, 8) == Lifetimes{N, 2, 3, 4, 5, 6, 7, U});
  // Sinks that are in the window still are decided all the same.
  CHECK(lifetimes("streaming:sinks=3,window=8", {}, 8) == Lifetimes{N, N, N, U, U, U, U, U});
}

TEST_CASE("policy rules: kvpop holds contests for top_k places, of equals the older stays", "[core][policy]") {
  // sinks 2, window 3, top_k = 8 - 2 - 3 = 3; token t comes at q = t + 3.
  //   q  5   6   7   tokens 2, 3, 4 fill the places           {2: .5, 3: .125, 4: .75}
  //   q  8   5 (.25)   beats 3 (.125), which leaves           {2: .5, 4: .75, 5: .25}
  //   q  9   6 (.125)  loses to 5 (.25)
  //   q 10   7 (.5)    beats 5                                {2: .5, 4: .75, 7: .5}
  //   q 11   8 (NaN, the lowest score) loses to 7, the younger of the two that have .5
  //   q 12   9 (.5)    equals 7, which is older and stays
  //   q 13   10 (1)    beats 7; 2 has the same score but is older
  const std::vector<float> scores = {9, 9, .5f, .125f, .75f, .25f, .125f, .5f, kNan, .5f, 1, 9, 9, 9};
  const Lifetimes expected = {N, N, N, 8, N, 10, 9, 13, 11, 12, N, U, U, U};
  const std::vector<Contest> met = {contest(8, 5, .25f, 3, .125f, 3), contest(9, 6, .125f, 5, .25f, 6),
                                    contest(10, 7, .5f, 5, .25f, 5),  contest(11, 8, -kInf, 7, .5f, 8),
                                    contest(12, 9, .5f, 7, .5f, 9),   contest(13, 10, 1, 7, .5f, 7)};
  for (const char* policy : {"kvpop:budget=8,sinks=2,window=3", "top-k:budget=8,sinks=2,window=3"}) {
    CAPTURE(policy);
    std::vector<Contest> contests;
    CHECK(lifetimes(policy, scores, 14, &contests) == expected);
    CHECK(contests == met);
  }
}

TEST_CASE("policy rules: kvpop without places is streaming, with more than tokens the full cache", "[core][policy]") {
  const std::vector<float> scores = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<Contest> contests;
  CHECK(lifetimes("kvpop:budget=5,sinks=2,window=3", scores, 8, &contests) == Lifetimes{N, N, 5, 6, 7, U, U, U});
  CHECK(contests.empty());
  CHECK(lifetimes("kvpop:budget=8,sinks=2,window=3", scores, 8, &contests) == Lifetimes{N, N, N, N, N, U, U, U});
  CHECK(contests.empty());
  // One place for three tokens of rising score: each newcomer takes it.
  CHECK(lifetimes("kvpop:budget=6,sinks=2,window=3", scores, 8) == Lifetimes{N, N, 6, 7, N, U, U, U});
}

TEST_CASE("policy rules: decay takes log(decay) for every token of age", "[core][policy]") {
  // window 2, top_k 2, log .5 = -.6931; by static priority (eq. 20) score + .6931 t:
  //   t          0      1       2       3       4       5       6       7
  //   score      3      1       1       0       2      -1      -2       0
  //   priority   3      1.693   2.386   2.079   4.773   2.466   2.159   4.852
  //   q 4: 2 beats 1.  q 5: 3 loses to 2.  q 6: 4 beats 2.  q 7, 8: 5 and 6 lose to 0.  q 9: 7 beats 0.
  const std::vector<float> scores = {3, 1, 1, 0, 2, -1, -2, 0, 0, 0};
  std::vector<Contest> contests;
  CHECK(lifetimes("kvpop:budget=4,sinks=0,window=2,decay=0.5", scores, 10, &contests) ==
        Lifetimes{9, 4, 6, 5, N, 7, 8, N, U, U});
  REQUIRE(contests.size() == 6u);
  const Contest& last = contests.back();
  CHECK((last.q == 9 && last.newcomer == 7 && last.boundary == 0 && last.evicted == 0));
  CHECK(last.newcomer_effective == Approx(0 - 2 * .6931472));
  CHECK(last.boundary_effective == Approx(3 - 9 * .6931472));
  // Without decay 2 loses to 1, which has the same score and is older; 4 beats 1, and nobody beats 0.
  CHECK(lifetimes("kvpop:budget=4,sinks=0,window=2", scores, 10) == Lifetimes{N, 6, 4, 5, N, 7, 8, 9, U, U});
}

TEST_CASE("policy rules: with a stride of 4 a token pays for every full four tokens of age", "[core][policy]") {
  // window 2, top_k 1, decay .5.
  //   q 3: 1 (.9) loses to 0 (1, age 3: nothing to pay)      q 6: 4 (-.1) beats 2 (.5 - .6931 = -.1931)
  //   q 4: 2 (.5) beats 0 (1 - .6931 = .3069)                 q 7: 5 (-.1) equals 4 (-.1, age 3), which is older
  //   q 5: 3 (.2) loses to 2 (.5, age 3)
  const std::vector<float> scores = {1, .9f, .5f, .2f, -.1f, -.1f, 0, 0};
  CHECK(lifetimes("kvpop:budget=3,sinks=0,window=2,decay=0.5,stride=4", scores, 8) ==
        Lifetimes{4, 3, 6, 5, N, 7, U, U});
  // Stride 1: priorities 1, 1.593, 1.886, 2.279, 2.673, 3.366 rise, so that every newcomer takes the place.
  CHECK(lifetimes("kvpop:budget=3,sinks=0,window=2,decay=0.5", scores, 8) == Lifetimes{3, 4, 5, 6, 7, N, U, U});
}

TEST_CASE("policy rules: a threshold keeps what reaches it, and a NaN never does", "[core][policy]") {
  // window 3: who fails leaves at t + 3. Token 0 is a sink; 1 and 8 have exactly .5.
  const std::vector<float> scores = {-5, .5f, .49f, kNan, kInf, -kInf, .51f, 0, .5f, 1, 1, 1};
  const Lifetimes reaches = {N, N, 5, 6, N, 8, N, 10, N, U, U, U};
  const Lifetimes above = {N, 4, 5, 6, N, 8, N, 10, 11, U, U, U};
  CHECK(lifetimes("threshold:threshold=0.5,sinks=1,window=3", scores, 12) == reaches);
  CHECK(lifetimes("sp-kv:threshold=0.5,sinks=1,window=3", scores, 12) == reaches);
  CHECK(lifetimes("kvzap:threshold=0.5,sinks=1,window=3", scores, 12) == reaches);
  CHECK(lifetimes("wg-kv:threshold=0.5,sinks=1,window=3", scores, 12) == above);  // strict, as its released code
  // No sinks unless they are named.
  CHECK(lifetimes("sp-kv:threshold=0.5,window=3", scores, 6) == Lifetimes{3, N, 5, U, U, U});
  // A threshold that is no float: what is compared is the float nearest to it, which .1f is.
  CHECK(lifetimes("sp-kv:threshold=0.1,window=1", {.1f, .1f, .1f}, 3) == Lifetimes{N, N, U});
  CHECK(lifetimes("wg-kv:threshold=0.1,window=1", {.1f, std::nextafter(.1f, 1.0f), .1f}, 3) == Lifetimes{1, N, U});
  // KVzap's is a logarithm.
  CHECK(lifetimes("kvzap:threshold=-4,window=2", {-4, -4.5f, -3, -100, 0, 0, 0, 0}, 8) ==
        Lifetimes{N, 3, N, 5, N, N, U, U});
  // Reading fewer pages takes nobody away.
  CHECK(lifetimes("wg-kv:threshold=0.5,sinks=1,window=3,read=16", scores, 12) == above);
}

TEST_CASE("policy rules: dms counts the window without the query itself, 513 keys for 512", "[core][policy]") {
  // Scores are negated logits: a logit of exactly 0 does not evict, since DMS evicts where it is > 0.
  CHECK(lifetimes("dms:window=3", {1, -1, 0, kNan, -.5f, 2, -1, 1, 1, 1}, 10) ==
        Lifetimes{N, 5, N, 7, 8, N, U, U, U, U});
  std::vector<float> scores(520, -1);
  scores[2] = 1;
  Lifetimes expected(520, U);
  for (const auto& [t, evict_at] : {std::pair(0, 513), {1, 514}, {2, N}, {3, 516}, {4, 517}, {5, 518}, {6, 519}})
    expected[static_cast<std::size_t>(t)] = evict_at;
  CHECK(lifetimes("dms", scores, 520) == expected);
  CHECK(PolicySpec::parse("dms").geometry(520).window == 513);
}

TEST_CASE("policy rules: duo's full heads are the share of greatest alpha, of equals the earlier", "[core][policy]") {
  // Half of 6 heads: .9, then two of the three that have .5.
  const HeadsOfModel heads = {.n_layers = 2, .n_kv_heads = 3, .alpha = {.9f, .2f, .5f, .5f, .1f, .5f}};
  const std::vector<std::uint8_t> local = local_heads("duo:full=0.5", heads);
  CHECK(local == std::vector<std::uint8_t>{0, 1, 0, 0, 1, 1});
  CHECK(local_heads("duo:full=0", heads) == std::vector<std::uint8_t>(6, 1));
  CHECK(local_heads("duo:full=1", heads) == std::vector<std::uint8_t>(6, 0));
  CHECK(local_heads("duo:full=0.25", heads) == std::vector<std::uint8_t>{0, 1, 0, 1, 1, 1});  // 1.5 heads are 2
  CHECK(local_heads("hybrid:heads=d,full=0.5", heads) == local);

  const PolicySpec spec = PolicySpec::parse("duo:full=0.5,sinks=1,window=3");
  const RetentionGeometry geometry = spec.geometry(8);
  RetentionPlan plan = policy_of(spec).plan(spec, geometry);
  plan.heads.assign(local.size(), rule_of(geometry));
  for (std::size_t i = 0; i < local.size(); ++i)
    if (local[i] != 0) plan.heads[i].locality = Locality::policy;
  const auto of_head = [&](int head) {
    Lifetimes out(8);
    replay(*make_rule(plan, geometry, head), false, {}, geometry.n_sink, geometry.window, 8, out, nullptr);
    return out;
  };
  CHECK(of_head(0) == Lifetimes{N, N, N, N, N, U, U, U});
  CHECK(of_head(1) == Lifetimes{N, 4, 5, 6, 7, U, U, U});
  // What a head directory names no trace has.
  CHECK_THROWS_WITH(lifetimes("duo", {}, 8), Contains("head directory"));
  CHECK_THROWS_WITH(lifetimes("hybrid:heads=d", {}, 8), Contains("head directory"));
}

TEST_CASE("policy rules: hybrids a and b take whole layers, c draws heads", "[core][policy]") {
  const auto global_layers = [](const std::string& policy, int n_layers) {
    const std::vector<std::uint8_t> local = local_heads(policy, {.n_layers = n_layers, .n_kv_heads = 2});
    std::vector<int> out;
    for (int layer = 0; layer < n_layers; ++layer) {
      const auto first = static_cast<std::size_t>(2 * layer);
      CHECK(local[first] == local[first + 1]);
      if (local[first] == 0) out.push_back(layer);
    }
    return out;
  };
  CHECK(global_layers("hybrid:heads=a", 10) == std::vector<int>{0, 4, 8, 9});
  CHECK(global_layers("hybrid:heads=b", 10) == std::vector<int>{3, 7, 9});
  CHECK(global_layers("hybrid:heads=a", 2) == std::vector<int>{0, 1});
  CHECK(global_layers("hybrid:heads=b", 2) == std::vector<int>{1});  // its first would be layer 3
  CHECK(global_layers("hybrid:heads=b", 4) == std::vector<int>{3});

  // 3 of 8 heads. Seed 0 draws .645 .717 .464 .679 .658 .983 .486 .137, seed 7 .260 .434 .032 .637 .056 .986 .601 .800.
  const HeadsOfModel heads = {.n_layers = 4, .n_kv_heads = 2};
  CHECK(local_heads("hybrid:heads=c,full=0.375,seed=0", heads) == std::vector<std::uint8_t>{1, 0, 1, 0, 1, 0, 1, 1});
  CHECK(local_heads("hybrid:heads=c,full=0.375,seed=7", heads) == std::vector<std::uint8_t>{1, 1, 1, 0, 1, 0, 1, 0});
  // A number of heads goes before the share.
  CHECK(local_heads("hybrid:heads=c,count=3,seed=7", heads) == local_heads("hybrid:heads=c,full=0.375,seed=7", heads));
  CHECK_THROWS_WITH(local_heads("hybrid:heads=c,count=9", heads), Contains("at most 8, the model's KV heads"));
}

TEST_CASE("policy rules: a hybrid that takes whole layers, or a number of heads, has the share that comes of it",
          "[core][policy]") {
  const auto settled = [](const char* policy) {
    const PolicySpec spec = PolicySpec::parse(policy);
    return policy_of(spec).with_own_share(spec, {.n_layers = 6, .n_kv_heads = 4});
  };
  CHECK(settled("hybrid:heads=a").value("full") == 0.5);      // layers 0, 4 and 5
  CHECK(settled("hybrid:heads=b").value("full") == 1.0 / 3);  // 3 and 5
  CHECK(settled("hybrid:heads=c,count=12").value("full") == 0.5);
  CHECK(settled("duo:count=6").value("full") == 0.25);
  CHECK_FALSE(settled("duo:count=6").is_open("full"));  // a head directory does not go before it
  CHECK(settled("duo").is_open("full"));
  CHECK_THROWS_WITH(settled("hybrid:heads=a,full=0.25"), Contains("12 of 24 heads are global by this strategy"));
  CHECK_THROWS_WITH(settled("duo:full=0.25,count=12"), Contains("full or count, not both"));
}

TEST_CASE("policy rules: a global head of a hybrid keeps all or by threshold, a local one streams", "[core][policy]") {
  const HeadIndex global = {.layer = 4, .kv_head = 1, .n_layers = 10, .n_kv_heads = 2},
                  local = {.layer = 5, .kv_head = 0, .n_layers = 10, .n_kv_heads = 2};
  const std::vector<float> scores = {.5f, .25f, .75f, kNan, .5f, 1, 1, 1};
  const std::string all = "hybrid:heads=a,sinks=0,window=3", some = "hybrid:heads=a,on=threshold,sinks=0,window=3";
  CHECK(lifetimes(all, {}, 8, nullptr, global) == Lifetimes{N, N, N, N, N, U, U, U});
  CHECK(lifetimes(all, {}, 8, nullptr, local) == Lifetimes{3, 4, 5, 6, 7, U, U, U});
  CHECK(lifetimes(some, scores, 8, nullptr, global) == Lifetimes{N, 4, N, 6, N, U, U, U});
  CHECK(lifetimes(some, scores, 8, nullptr, local) == Lifetimes{3, 4, 5, 6, 7, U, U, U});
}

TEST_CASE("policy rules: random retention goes by the counter's numbers", "[core][policy]") {
  // Of seed 3, layer 0, head 0, from a second implementation in Python.
  const std::vector<float> expected = {.118460f, .113450f, .700293f, .612975f, .072867f, .216439f,
                                       .636222f, .135146f, .888718f, .491062f, .888529f, .698436f};
  std::vector<float> scores;
  for (std::int32_t t = 0; t < 12; ++t) scores.push_back(kernels::counter_uniform(3, 0, 0, t));
  for (std::size_t t = 0; t < 12; ++t) CHECK(scores[t] == Approx(expected[t]).margin(1e-6));
  CHECK(kernels::counter_uniform(3, 1, 2, 5) == Approx(.907124f).margin(1e-6));
  CHECK(plan_of("random:seed=3").seed == 3u);

  // admit .4: a score of at least .6 stays. window 2.
  CHECK(lifetimes("random:admit=0.4,sinks=1,window=2,seed=3", scores, 12) ==
        Lifetimes{N, 3, N, N, 6, 7, N, 9, N, 11, U, U});
  // top_k 2: q 5: 3 beats 1. q 6, 7: 4, 5 lose to 3. q 8: 6 beats 3. q 9: 7 loses to 6. q 10: 8 beats 6. q 11: 9 loses.
  CHECK(lifetimes("random:budget=5,sinks=1,window=2,seed=3", scores, 12) ==
        Lifetimes{N, 5, N, 8, 6, 7, 10, 9, N, 11, U, U});
  CHECK(lifetimes("random:admit=1,sinks=0,window=2", scores, 6) == Lifetimes{N, N, N, N, U, U});
}

TEST_CASE("policy rules: quest takes nobody away, and attention policies follow from no scores", "[core][policy]") {
  CHECK(lifetimes("quest:window=3,read=16", {}, 8) == Lifetimes{N, N, N, N, N, U, U, U});
  const std::vector<float> scores(100, 1.0f);
  for (const char* policy : {"tova:budget=8", "h2o:budget=8,window=2", "snapkv:budget=8,window=2",
                             "expected-attention:budget=8", "wg-kv:pool=4,window=2", "sp-kv:pool=4,window=2",
                             "dms:pool=4,window=2", "kvzap:pool=4,window=2", "threshold:pool=4,window=2"}) {
    CAPTURE(policy);
    CHECK_THROWS_WITH(lifetimes(policy, scores, 100), Contains("decides by attention"));
  }
}

TEST_CASE("policy rules: a budget as tokens, share or factor gives the same lifetimes", "[core][policy]") {
  // 16 positions: 8 tokens are a half, or 2x. top_k 3: 5 (6) puts out 3 (1), 7 (3) loses to 2 (5) or better, 9 (7) puts
  // out 2, 12 (8) puts out 5.
  const std::vector<float> scores = {0, 0, 5, 1, 9, 6, 2, 3, 2, 7, 0, 4, 8, 0, 0, 0};
  const Lifetimes expected = {N, N, 12, 8, N, 15, 9, 10, 11, N, 13, 14, N, U, U, U};
  for (const char* budget : {"budget=8", "keep=50%", "keep=0.5", "compression=2x"}) {
    for (const char* name : {"kvpop", "top-k", "random"}) {
      CAPTURE(budget, name);
      CHECK(lifetimes(std::string(name) + ":sinks=2,window=3," + budget, scores, 16) == expected);
    }
    for (const char* name : {"tova", "h2o", "snapkv", "expected-attention"}) {
      CAPTURE(budget, name);
      CHECK(PolicySpec::parse(std::string(name) + ":window=1," + budget).geometry(16).budget() == 8);
    }
  }
}

TEST_CASE("policy rules: a budget in which nobody could leave is refused", "[core][policy]") {
  const auto refusal = [](const std::string& policy) {
    return test::error_of([&] { PolicySpec::parse(policy).geometry(100); });
  };
  for (const char* name : {"kvpop", "top-k", "random", "expected-attention"}) {
    CAPTURE(name);
    CHECK_THAT(refusal(std::string(name) + ":budget=9,sinks=4,window=6"), Contains("sinks 4 + window 6 = 10 tokens"));
    CHECK(refusal(std::string(name) + ":budget=10,sinks=4,window=6") == "no error");
    CHECK_THAT(refusal(std::string(name) + ":keep=9%,sinks=4,window=6"), Contains("9 tokens = 9 % of 100"));
    CHECK_THAT(refusal(std::string(name) + ":compression=12x,sinks=4,window=6"), Contains("8 tokens"));
  }
  CHECK_THAT(refusal("snapkv:budget=15,window=16"), Contains("sinks 0 + window 16 = 16 tokens"));
  CHECK(refusal("snapkv:budget=16,window=16") == "no error");
  // H2O and TOVA evict at every step: what is protected must leave somebody.
  CHECK_THAT(refusal("h2o:budget=16,window=16"), Contains("more than the 16 newest tokens"));
  CHECK(refusal("h2o:budget=17,window=16") == "no error");
  CHECK_THAT(refusal("tova:budget=8,protect=8"), Contains("more than the 8 newest tokens"));
  CHECK(refusal("tova:budget=8,protect=7") == "no error");
  // A share is of the run's positions: the same text may fit one run and not another.
  CHECK_NOTHROW(PolicySpec::parse("kvpop:keep=10%,sinks=4,window=6").geometry(100));
  CHECK_THROWS_AS(PolicySpec::parse("kvpop:keep=10%,sinks=4,window=6").geometry(99), Error);
  CHECK(refusal("random:admit=0.5,budget=9,sinks=4,window=6") == "no error");  // it has none then
}

TEST_CASE("policy rules: the geometry of every policy", "[core][policy]") {
  struct Row {
    const char* policy;
    int n_sink, window, top_k;  // of 1000 positions
  };
  constexpr Row kRows[] = {{"full", 0, 64, 936},
                           {"streaming", 4, 64, 0},
                           {"streaming:sinks=2,window=30", 2, 30, 0},
                           {"kvpop", 4, 64, 444},
                           {"kvpop:keep=0.1,sinks=10,window=20", 10, 20, 70},
                           {"top-k", 4, 64, 444},
                           {"sp-kv", 0, 128, 872},
                           {"wg-kv", 0, 256, 744},
                           {"dms", 0, 513, 487},
                           {"dms:window=15,sinks=4", 4, 16, 980},
                           {"kvzap", 0, 128, 872},
                           {"threshold", 4, 64, 932},
                           {"threshold:window=2000", 4, 2000, 0},
                           {"tova", 0, 1, 511},
                           {"tova:compression=8x", 0, 1, 124},
                           {"h2o", 0, 256, 256},
                           {"snapkv", 0, 64, 448},
                           {"expected-attention", 4, 1, 507},
                           {"duo", 128, 256, 616},
                           {"hybrid", 0, 128, 872},
                           {"quest", 0, 64, 936},
                           {"random", 4, 64, 444},
                           {"random:admit=0.3", 4, 64, 932}};
  std::set<std::string> named;
  for (const Row& row : kRows) {
    CAPTURE(row.policy);
    const PolicySpec spec = PolicySpec::parse(row.policy);
    const RetentionGeometry geometry = spec.geometry(1000);
    CHECK(geometry.n_sink == row.n_sink);
    CHECK(geometry.window == row.window);
    CHECK(geometry.top_k == row.top_k);
    CHECK(geometry.log_gamma == 0);
    CHECK(geometry.decay_stride == 1);
    named.insert(spec.name);
  }
  for (const PolicyInfo& info : policy_list()) {  // whoever has no row stays within the run at least
    if (named.contains(std::string(info.name))) continue;
    CAPTURE(info.name);
    const RetentionGeometry geometry = PolicySpec::parse(info.name).geometry(1000);
    CHECK((geometry.n_sink >= 0 && geometry.window >= 1 && geometry.top_k >= 0));
    CHECK(geometry.budget() <= std::max(1000, geometry.n_sink + geometry.window));
  }
}

TEST_CASE("policy rules: prompts are dense and comparisons strict where the method is published so", "[core][policy]") {
  std::set<std::string> dense, strict;
  for (const PolicyInfo& info : policy_list()) {
    const RetentionPlan plan = plan_of(std::string(info.name));
    if (plan.dense_prefill) dense.insert(std::string(info.name));
    if (plan.strict) strict.insert(std::string(info.name));
  }
  for (const char* name : {"tova", "h2o", "snapkv", "expected-attention"}) CHECK(dense.contains(name));
  for (const char* name : {"full", "streaming", "kvpop", "sp-kv", "wg-kv", "dms", "kvzap", "threshold", "top-k", "duo",
                           "hybrid", "quest", "random"}) {
    CHECK_FALSE(dense.contains(name));
    CHECK(strict.contains(name) == (std::string_view(name) == "wg-kv"));
  }
  CHECK_FALSE(plan_of("tova:prefill=sparse").dense_prefill);
  CHECK_FALSE(plan_of("h2o:prefill=sparse").dense_prefill);
}
