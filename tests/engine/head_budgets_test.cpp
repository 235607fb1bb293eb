// Budgets that differ between heads, in real runs.

#include <algorithm>
#include <numeric>

#include "engine/core/policy/allocation.h"
#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"
#include "engine/decode/forced_pass.h"
#include "engine/decode/run.h"
#include "tests/engine/policy_cases.h"
#include "tests/engine/small_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using Catch::Matchers::Contains;

constexpr int kTokens = 140, kPrompt = 100;

const std::vector<std::int32_t>& ids() {
  static const std::vector<std::int32_t> all = test::some_ids(kTokens, 512, 43);
  return all;
}

RunRequest request(const std::string& policy, std::vector<std::int32_t> budgets = {}) {
  RunRequest request = test::request({ids().begin(), ids().begin() + kPrompt}, policy, kTokens - kPrompt);
  request.answer_ids.emplace(ids().begin() + kPrompt, ids().end());
  request.budgets = std::move(budgets);
  return request;
}

RunRecord record(const std::string& policy, std::vector<std::int32_t> budgets = {}) {
  return engine::record_run(test::model_of_every_policy(), request(policy, std::move(budgets)));
}

int held(const RunRecord& run, int head, int q) {
  int n = 0;
  const auto& row = run.evict_at.row(head / 2, head % 2);
  for (int t = 0; t <= q; ++t) n += visible(q, t, row[static_cast<std::size_t>(t)]);
  return n;
}

/// Whether a policy's heads stay at their budgets while the answer grows.
bool stays(const std::string& policy) { return !policy.starts_with("snapkv") && !policy.starts_with("expected"); }

}  // namespace

TEST_CASE("head budgets: each head holds its own, their mean is the policy's, and given again they make the same run",
          "[engine][budgets]") {
  const std::string policy = GENERATE(
      "kvpop:budget=48,sinks=4,window=16,allocation=pyramid,beta=4", "top-k:budget=40,sinks=2,window=16,allocation=ada",
      "tova:budget=40,sinks=2,allocation=pyramid,beta=3", "h2o:budget=40,window=16,allocation=ada,safeguard=0",
      "h2o:budget=40,sinks=4,window=16,prefill=sparse,allocation=pyramid,beta=3",
      "snapkv:budget=40,window=8,allocation=ada-pyramid,beta=3",
      "expected-attention:budget=40,interval=0,future=32,allocation=ada,safeguard=0");
  CAPTURE(policy);
  const RunRecord run = record(policy);
  const std::vector<std::int32_t> budgets = run.budgets();
  REQUIRE(budgets.size() == 4);
  CHECK(std::accumulate(budgets.begin(), budgets.end(), 0) == 4 * run.geometry().budget());
  CHECK(std::ranges::min(budgets) < std::ranges::max(budgets));
  for (int head = 0; head < 4; ++head) {
    const int budget = budgets[static_cast<std::size_t>(head)];
    CHECK(run.geometry(head / 2, head % 2).budget() == budget);
    // The query that is over the budget has still seen the token that leaves after it, of a policy that evicts the least.
    const int slack = run.policy.name == "tova" || run.policy.name == "h2o" ? 1 : 0;
    for (int q = kPrompt; stays(policy) && q < kTokens; ++q) CHECK(held(run, head, q) == budget + slack);
    if (!stays(policy)) CHECK(held(run, head, kPrompt) == budget + 1);
  }
  const std::string uniform = policy.substr(0, policy.find(",allocation"));
  const RunRecord given = record(uniform, budgets);
  CHECK(given.evict_at == run.evict_at);
  CHECK((given.heads == run.heads));
  CHECK(record(policy, budgets).evict_at == run.evict_at);  // as a run that is read again has them
  CHECK(record(uniform).evict_at != run.evict_at);
}

TEST_CASE("head budgets: a score under given budgets is that of a run under them", "[engine][budgets]") {
  const std::vector<std::int32_t> budgets = {20, 60, 44, 36};
  const RunRecord run = record("h2o:budget=40,window=16", budgets);
  const ScoreFacts facts = engine::forced_pass(
      test::model_of_every_policy(),
      {.text = "", .ids = run.ids, .policy = run.policy, .prompt_len = kPrompt, .chunk = 0, .budgets = budgets});
  for (std::size_t t = 1; t < run.logprobs.size(); ++t)
    CHECK(facts.logprobs[t] == Approx(run.logprobs[t]).margin(1e-5));
}

TEST_CASE("head budgets: what cannot be divided is refused, in one line", "[engine][budgets]") {
  const auto refusal = [](const std::string& policy, std::vector<std::int32_t> budgets) {
    try {
      record(policy, std::move(budgets));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK_THAT(refusal("snapkv:budget=40,window=8", {40, 40, 40}), Contains("3 numbers; expected 4, one per KV head"));
  CHECK_THAT(refusal("snapkv:budget=40,window=8", {40, 40, 7, 40}), Contains("layer 1 head 0: 7 tokens"));
  CHECK_THAT(refusal("full", {40, 40, 40, 40}), Contains("budgets of heads under full"));
  CHECK_THAT(refusal("wg-kv:window=16", {40, 40, 40, 40}), Contains("each head has a budget"));
}

TEST_CASE("head budgets: within a run the budget that scores have divided cannot change, another parameter can",
          "[engine][budgets]") {
  engine::Generation run(test::model_of_every_policy(), request("top-k:budget=40,sinks=2,window=16,allocation=ada"));
  run.prefill();
  const HeadRules before = run.heads();
  REQUIRE(before.size() == 4);
  CHECK_THROWS_WITH(run.change_policy(PolicySpec::parse("top-k:budget=30,sinks=2,window=16,allocation=ada"), nullptr),
                    Contains("budget"));
  run.change_policy(PolicySpec::parse("top-k:budget=40,sinks=2,window=16,decay=0.9,allocation=ada"), nullptr);
  for (std::size_t head = 0; head < 4; ++head) {
    CHECK(run.heads()[head].top_k == before[head].top_k);
    CHECK(run.heads()[head].log_gamma < 0);
  }
  engine::Generation h2o(test::model_of_every_policy(), request("h2o:budget=40,window=16,allocation=pyramid,beta=4"));
  h2o.prefill();
  h2o.change_policy(PolicySpec::parse("h2o:budget=30,window=16,allocation=pyramid,beta=4"), nullptr);
  CHECK_THROWS_WITH(h2o.change_policy(PolicySpec::parse("h2o:budget=30,window=16,allocation=pyramid,beta=40"), nullptr),
                    Contains("budget"));
}

}  // namespace kvscope
