#include "engine/core/policy/match_cache_size.h"

#include <catch2/catch.hpp>

#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using kvscope::test::random_run;

namespace {

HeldTokens held_by(const RunRecord& run) {
  return {.tokens = tokens_in_cache(run, run.queries() - 1), .n_answer = run.queries() - run.prompt_len};
}

}  // namespace

TEST_CASE("match_cache_size: a run under the matched policy holds as many tokens at its end as A did", "[policy]") {
  const char* of_a = GENERATE("streaming:sinks=4,window=50", "kvpop:budget=71,sinks=4,window=16",
                              "threshold:threshold=0.3,sinks=4,window=16", "full");
  const char* asked = GENERATE("streaming", "streaming:sinks=0,window=7", "kvpop:budget=300,sinks=2,window=20",
                               "kvpop:keep=90%,sinks=4,window=16", "top-k:window=16,decay=0.99",
                               "random:window=16,budget=40", "oracle:window=16,compression=2x",
                               "kvpop:window=16,capacity=pooled", "kvpop:window=16,allocation=pyramid");
  CAPTURE(of_a, asked);
  const RunRecord a = random_run(3, {.policy = of_a});
  const MatchedPolicy matched = match_cache_size(PolicySpec::parse(asked), held_by(a), a.n_positions);
  REQUIRE(matched.policy);
  CHECK(matched.why_not.empty());
  const RunRecord run = random_run(3, {.policy = matched.policy->to_string()});
  const double wanted = std::round(held_by(a).tokens), got = held_by(run).tokens;
  const bool divided = std::string(asked).find("allocation") != std::string::npos;  // to whole tokens a head
  CHECK(got == Approx(wanted).margin(divided ? 0.5 : 1e-6));
}

TEST_CASE("match_cache_size: what keeps the newest tokens besides its budget gets a smaller one", "[policy]") {
  const auto budget = [](const char* policy, int n_answer) {
    return match_cache_size(PolicySpec::parse(policy), {.tokens = 100, .n_answer = n_answer}, 400).budget;
  };
  CHECK(budget("kvpop:window=16", 30) == 100);
  CHECK(budget("h2o:window=16", 30) == 99);  // the query's own token is there when another leaves for it
  CHECK(budget("tova", 30) == 99);
  CHECK(budget("snapkv:window=16", 30) == 70);
  CHECK(budget("expected-attention:interval=0", 30) == 70);
  CHECK(budget("expected-attention:interval=512", 30) == 70);
  CHECK(budget("expected-attention:interval=8", 30) == 94);  // the last compression was before token 24 of the answer
  CHECK(budget("expected-attention:interval=8", 32) == 92);
}

TEST_CASE("match_cache_size: every policy has a budget that matches or a sentence why it has none", "[policy]") {
  int matched = 0, refused = 0;
  for (const PolicyInfo& info : policy_list()) {
    CAPTURE(info.name);
    const MatchedPolicy found = match_cache_size(PolicySpec::parse(info.name), {.tokens = 300, .n_answer = 10}, 1000);
    CHECK(found.policy.has_value() == found.why_not.empty());
    CHECK((found.policy || found.why_not.ends_with('.')));
    found.policy ? ++matched : ++refused;
  }
  CHECK(matched == 9);
  CHECK(refused == static_cast<int>(policy_list().size()) - 9);
  const auto why = [](const char* policy, double tokens) {
    return match_cache_size(PolicySpec::parse(policy), {.tokens = tokens, .n_answer = 10}, 1000).why_not;
  };
  CHECK(why("full", 60) == "Full cache evicts nothing: it has no size to set.");
  CHECK(why("threshold", 60) == "Score threshold keeps what its threshold admits: its size follows from the text.");
  CHECK_FALSE(why("kvpop:sinks=4,window=64", 60).empty());
  CHECK_FALSE(why("streaming:sinks=4", 4).empty());
  CHECK_FALSE(why("snapkv:window=16,pool=64", 60).empty());
  CHECK_FALSE(why("random:admit=0.5", 60).empty());
  CHECK_FALSE(why("kvpop", std::nan("")).empty());
}
