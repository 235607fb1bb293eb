// Runs read again, with the changes that they had, and what cannot be read.
#include <algorithm>
#include <cmath>

#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"
#include "engine/decode/forced_pass.h"
#include "tests/engine/gated_model.h"
#include "tests/engine/plain_rules.h"
#include "tests/engine/policy_cases.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

constexpr int kTokens = 90;

const engine::LoadedModel& model() {
  static const engine::LoadedModel loaded =
      test::gated_model({test::random_gate(GateKind::kvpop_mlstm, 16), test::random_gate(GateKind::wg_kv)});
  return loaded;
}
const std::vector<std::int32_t>& ids() {
  static const std::vector<std::int32_t> all = test::some_ids(kTokens, 512, 33);
  return all;
}

ScoreRequest reading(const std::string& policy, int chunk = 1) {
  return {.text = "", .ids = ids(), .policy = PolicySpec::parse(policy), .changes = {}, .chunk = chunk};
}

TEST_CASE("forced: a run read again under its own policy and its changes is the run", "[engine][forced]") {
  const auto [policy, change] = GENERATE(
      table<std::string, std::string>({{"tova:budget=30", "tova:budget=20"},
                                       {"h2o:budget=30,window=8", "h2o:budget=20,window=8"},
                                       {"snapkv:budget=30,window=8", ""},
                                       {"expected-attention:budget=30,interval=8", ""},
                                       {"quest:read=32,dense=0", ""},
                                       {"kvpop:budget=40,sinks=4,window=16", "kvpop:budget=30,sinks=4,window=16"},
                                       {"wg-kv:window=16,threshold=0.3", "wg-kv:window=16,threshold=0.6"},
                                       {"kvpop:budget=40,sinks=4,window=16", ""}}));
  CAPTURE(policy, change);
  RunRequest wanted = test::request({ids().begin(), ids().begin() + 60}, policy, 40);
  if (!change.empty()) wanted.changes = {{75, PolicySpec::parse(change)}};
  const RunRecord run = engine::record_run(model(), wanted);
  REQUIRE(run.n_tokens() == 100);
  ScoreRequest again{.text = "",
                     .ids = run.ids,
                     .policy = run.policy,
                     .changes = run.changes,
                     .n_positions = run.n_positions,
                     .prompt_len = run.prompt_len,
                     .choices = true};
  const RunRecord read = engine::record_run(model(), engine::forced_request(model(), again));
  CHECK(read.evict_at == run.evict_at);
  const ScoreFacts facts = engine::forced_pass(model(), again);
  REQUIRE(facts.logprobs.size() == run.logprobs.size());
  for (std::size_t i = 1; i < run.logprobs.size(); ++i)
    REQUIRE(facts.logprobs[i] == Approx(run.logprobs[i]).margin(1e-4));
  CHECK(std::equal(run.ids.begin() + 60, run.ids.end(), facts.greedy.begin() + 60));  // it was drawn greedily
  CHECK(facts.prompt_len == 60);
  CHECK(facts.chunk == 0);
  if (change.empty()) return;
  again.changes.clear();
  CHECK(engine::forced_pass(model(), again).nll != facts.nll);
}

TEST_CASE("forced: a change holds from its query on where the text is under the policy from its first token on",
          "[engine][forced]") {
  const auto [policy, change] = GENERATE(
      table<std::string, std::string>({{"tova:budget=30", "tova:budget=20"},
                                       {"snapkv:budget=30,window=8", "snapkv:budget=20,window=8"},
                                       {"kvpop:budget=40,sinks=4,window=16", "kvpop:budget=30,sinks=4,window=16"}}));
  CAPTURE(policy, change);
  ScoreRequest request = reading(policy);
  request.changes = {{64, PolicySpec::parse(change)}};
  const RunRecord changed = engine::record_run(model(), engine::forced_request(model(), request)),
                  unchanged = engine::record_run(model(), engine::forced_request(model(), reading(policy)));
  CHECK(test::evictions(changed, 1, 1, 63) == test::evictions(unchanged, 1, 1, 63));
  CHECK(test::evictions(changed, 1, 1, 64).size() >= test::evictions(unchanged, 1, 1, 63).size() + 10);
  REQUIRE(changed.changes.size() == 1);
  CHECK(changed.changes[0].q == 64);
}

/// A pool with an interval is cut by that, whatever the chunk.
bool acts_at_times_of_its_own(const std::string& policy) {
  const PolicySpec spec = PolicySpec::parse(policy);
  return policy_of(spec).plan(spec, spec.geometry(kTokens)).cut_interval > 0;
}

TEST_CASE("forced: every policy is read in chunks, but for a choice of what is read under a gate", "[engine][forced]") {
  const std::string policy = test::policy_cases()[GENERATE(range(std::size_t{0}, test::policy_cases().size()))].policy;
  CAPTURE(policy);
  const engine::LoadedModel& every = test::model_of_every_policy();
  if (policy.find(",read=") != std::string::npos) {  // its steps would evict within a chunk; Quest evicts nothing
    CHECK_THROWS_WITH(engine::forced_pass(every, reading(policy, 16)), Catch::Matchers::Contains("--chunk 1"));
    return;
  }
  const ScoreFacts facts = engine::forced_pass(every, reading(policy, 16));
  CHECK(facts.chunk == (acts_at_times_of_its_own(policy) ? 0 : 16));
  CHECK(std::isfinite(facts.nll));
  // Of two layers strategy A makes both global.
  CHECK(facts.dense == (policy == "full" || policy.starts_with("hybrid:heads=a")));
  if (!facts.dense) CHECK(facts.nll != engine::forced_pass(every, reading("full")).nll);
}

// H2: a chunk that holds the whole text leaves nothing to the policy, and was a measurement of it all the same.
TEST_CASE("forced: a result that is dense by construction says so, for every policy and chunk", "[engine][forced]") {
  const std::string policy = test::policy_cases()[GENERATE(range(std::size_t{0}, test::policy_cases().size()))].policy;
  const int chunk = GENERATE(1, 7, 64, kTokens - 1, kTokens, 4096);
  CAPTURE(policy, chunk);
  const engine::LoadedModel& every = test::model_of_every_policy();
  if (chunk > 1 && policy.find(",read=") != std::string::npos) {
    CHECK_THROWS_WITH(engine::forced_pass(every, reading(policy, chunk)), Catch::Matchers::Contains("--chunk 1"));
    return;
  }
  const ScoreFacts facts = engine::forced_pass(every, reading(policy, chunk));
  static const ScoreFacts full = engine::forced_pass(every, reading("full"));
  double difference = 0;
  for (std::size_t i = 1; i < full.logprobs.size(); ++i)
    difference = std::max(difference, std::abs(static_cast<double>(facts.logprobs[i]) - full.logprobs[i]));
  CAPTURE(difference);
  CHECK(facts.dense == (difference < 1e-4));
  CHECK(facts.chunk == (acts_at_times_of_its_own(policy) ? 0 : chunk));
  const PolicySpec spec = PolicySpec::parse(policy);
  const bool selects = policy_of(spec).plan(spec, spec.geometry(kTokens)).selection.tokens > 0;
  if (chunk >= kTokens && !selects && !acts_at_times_of_its_own(policy)) CHECK(facts.dense);
}

TEST_CASE("forced: Quest reads a share of the text's final length, in chunks too", "[engine][forced]") {
  const int chunk = GENERATE(1, 16);
  const ScoreFacts share = engine::forced_pass(model(), reading("quest:read=36%,dense=0", chunk)),
                   tokens = engine::forced_pass(model(), reading("quest:read=32,dense=0", chunk));
  CHECK(share.nll == tokens.nll);  // 36 % of 90 are 32.4
  CHECK(share.policy.to_string() == "quest:read=0.36,dense=0,window=64");
  ScoreRequest longer = reading("quest:read=36%,dense=0", chunk);
  longer.n_positions = 2 * kTokens;
  CHECK(engine::forced_pass(model(), longer).nll ==
        engine::forced_pass(model(), reading("quest:read=64,dense=0", chunk)).nll);
}

TEST_CASE("forced: what cannot be read in chunks is refused, not read otherwise", "[engine][forced]") {
  const auto refused = [&](ScoreRequest request, const std::string& what) {
    try {
      engine::forced_pass(model(), request);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::usage);
      CHECK(std::string(error.what()).find(what) != std::string::npos);
      return true;
    }
    return false;
  };
  CHECK(refused(reading("wg-kv:window=16,read=32", 16), "--chunk 1"));
  ScoreRequest changed = reading("kvpop:budget=40,sinks=4,window=16", 16);
  changed.changes = {{40, PolicySpec::parse("kvpop:budget=30,sinks=4,window=16")}};
  CHECK(refused(changed, "--chunk 1"));
  ScoreRequest beyond = reading("tova:budget=30");
  beyond.prompt_len = kTokens + 1;
  CHECK(refused(beyond, "prompt_len"));
}

}  // namespace
}  // namespace kvscope
