// A model whose layer 0 attends to a window alone, under every policy: the policy decides in layer 1, and nowhere else.

#include <cmath>

#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/study/measure/run_curve.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/decode/run.h"
#include "tests/engine/policy_cases.h"
#include "tests/engine/small_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

constexpr int kTokens = 140, kPrompt = 100;

const engine::LoadedModel& model() { return test::local_model_of_every_policy(); }

const std::vector<std::int32_t>& ids() {
  static const std::vector<std::int32_t> all = test::some_ids(kTokens, 512, 44);
  return all;
}

RunRecord record(const std::string& policy, bool output_error = false) {
  RunRequest request = test::request({ids().begin(), ids().begin() + kPrompt}, policy, kTokens - kPrompt);
  request.answer_ids.emplace(ids().begin() + kPrompt, ids().end());
  request.oracle = true;
  request.output_error = output_error;
  return engine::record_run(model(), request);
}

std::string some_policy() {
  return test::policy_cases()[GENERATE(range(std::size_t{0}, test::policy_cases().size()))].policy;
}

/// Of the local layer: a token is there for as many queries as the window is long.
void check_local_layer(const LifetimeMap& evict_at, int n_queries) {
  for (int head = 0; head < evict_at.n_kv_heads(); ++head) {
    const auto& row = evict_at.row(0, head);
    for (int t = 0; t < static_cast<int>(row.size()); ++t) {
      CAPTURE(head, t);
      REQUIRE(row[static_cast<std::size_t>(t)] ==
              (t + test::kLocalWindow < n_queries ? t + test::kLocalWindow : kUndecided));
    }
  }
}

}  // namespace

TEST_CASE("local layers: under every policy the model's window decides in them, and no mean has their heads",
          "[engine][local]") {
  const std::string policy = some_policy();
  CAPTURE(policy);
  const RunRecord run = record(policy);
  REQUIRE(run.status == RunStatus::complete);
  REQUIRE(run.heads.size() == 4);
  check_local_layer(run.evict_at, run.queries());
  CHECK(run.model_windows() == std::vector<std::int32_t>{test::kLocalWindow, 0});
  const int q = run.queries() - 1;
  for (int head = 0; head < 2; ++head) {
    CHECK(run.is_local_by_model(0, head));
    CHECK_FALSE(run.is_local_by_model(1, head));
    for (const float score : run.scores.row(0, head)) CHECK(std::isnan(score));
    for (const Metric metric : {Metric::density, Metric::evict_ratio, Metric::recall, Metric::mass_kept})
      CHECK(std::isnan(head_metric(run, metric, q).at(0, head)));
  }
  for (const Contest& contest : run.contests) REQUIRE(contest.layer == 1);
  for (const PageRead& read : run.reads) REQUIRE(read.layer == 1);
  // The mean is that of layer 1 alone, by a count over its lifetimes.
  double density = 0;
  for (int head = 0; head < 2; ++head) {
    const RetentionGeometry g = run.geometry(1, head);
    double kept = 0;
    for (int t = 0; t <= q - g.window; ++t) kept += run.evict_at.row(1, head)[static_cast<std::size_t>(t)] > q;
    density += kept / (q - g.window + 1) / 2;
  }
  CHECK(mean(head_metric(run, Metric::density, q)) == Approx(density).epsilon(1e-6));
}

TEST_CASE("local layers: lifetimes of the global layer are those of the rule over the recorded scores",
          "[engine][local][whatif]") {
  const std::string policy = some_policy();
  const PolicySpec spec = PolicySpec::parse(policy);
  const RetentionPlan plan = policy_of(spec).plan(spec, spec.geometry(kTokens));
  if (!plan.follows_from_scores() || plan.is_pooled() || plan.selection.tokens > 0 || policy.starts_with("duo") ||
      policy.find("heads=d") != std::string::npos)
    return;
  CAPTURE(policy);
  const RunRecord run = record(policy), preview = what_if(run, run.policy);
  CHECK(preview.evict_at == run.evict_at);
  CHECK((preview.heads == run.heads));
}

TEST_CASE("local layers: a prompt in chunks, at once and token by token leaves the same cache", "[engine][local]") {
  const std::string policy = some_policy();
  const PolicySpec spec = PolicySpec::parse(policy);
  const RetentionPlan plan = policy_of(spec).plan(spec, spec.geometry(kTokens));
  CAPTURE(policy);
  const test::Fed at_once = test::feed(model(), ids(), kPrompt, policy),
                  in_chunks = test::feed(model(), ids(), kPrompt, policy, {.chunk = 17});
  CHECK(at_once.kept == in_chunks.kept);
  CHECK(at_once.record.evict_at == in_chunks.record.evict_at);
  // Which pages a query reads depends on the slots that the tokens have.
  if (plan.selection.tokens == 0) CHECK(test::relative_difference(in_chunks.logits, at_once.logits) < 1e-4);
  check_local_layer(at_once.record.evict_at, at_once.record.queries());
  const bool by_prompt = plan.dense_prefill || plan.allocation.by_score() || !plan.eviction.empty();
  if (by_prompt || plan.selection.tokens > 0 || plan.density > 0) return;
  const test::Fed stepped = test::feed(model(), ids(), 1, policy);
  CHECK(stepped.kept == at_once.kept);
  CHECK(stepped.record.evict_at == at_once.record.evict_at);
  CHECK(test::relative_difference(stepped.logits, at_once.logits) < 1e-4);
}

TEST_CASE("local layers: a full cache loses nothing, by the output error too, and its local heads hold the window",
          "[engine][local][output_error]") {
  const RunRecord full = record("full", true);
  for (int head = 0; head < 2; ++head) {
    for (const float value : full.output_error.group_damage.row(0, head)) CHECK(std::isnan(value));
    for (const float value : full.output_error.group_damage.row(1, head)) CHECK(std::isnan(value));
  }
  const RunRecord some = record("streaming:sinks=2,window=32", true);
  for (const float value : some.output_error.group_damage.row(0, 0)) CHECK(std::isnan(value));
  CHECK(some.output_error.group_damage.row(1, 0).back() > 0);
  const test::Fed fed = test::feed(model(), ids(), kPrompt, "full");
  for (int head = 0; head < 2; ++head) {
    CHECK(fed.kept[static_cast<std::size_t>(head)].size() == test::kLocalWindow);
    CHECK(fed.kept[static_cast<std::size_t>(head)].front() == kTokens - test::kLocalWindow);
    CHECK(fed.kept[static_cast<std::size_t>(2 + head)].size() == kTokens);
  }
}

}  // namespace kvscope
