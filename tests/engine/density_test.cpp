// A run whose policy names a density instead of a threshold.
#include "engine/core/policy/density.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "engine/decode/forced_pass.h"
#include "engine/decode/run.h"
#include "tests/engine/gated_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using Catch::Matchers::Contains;

constexpr int kTokens = 120, kPrompt = 90, kWindow = 16;

const engine::LoadedModel& model() {
  static const engine::LoadedModel loaded =
      test::gated_model({test::random_gate(GateKind::sp_kv), test::random_gate(GateKind::wg_kv),
                         test::random_gate(GateKind::dms), test::random_gate(GateKind::kvzap_mlp)});
  return loaded;
}
const std::vector<std::int32_t>& ids() {
  static const std::vector<std::int32_t> all = test::some_ids(kTokens, 512, 77);
  return all;
}

RunRecord record(const std::string& policy) { return test::feed(model(), ids(), kPrompt, policy).record; }

std::string error_of(const std::string& policy, int prompt_len = kPrompt) {
  try {
    test::feed(model(), ids(), prompt_len, policy);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// A gate's policy, and the same with everything kept, so that its scores are those of a dense pass.
struct Method {
  const char *name, *keeps_all;
};

/// Scores of the prompt's tokens that had left the window when it ended, of each head.
std::vector<std::vector<float>> judged_scores(const RunRecord& run) {
  std::vector<std::vector<float>> out;
  const RetentionGeometry geometry = run.geometry();
  for (int head = 0; head < 4; ++head) {
    const auto& row = run.scores.row(head / 2, head % 2);
    out.emplace_back(row.begin() + geometry.n_sink, row.begin() + (kPrompt - geometry.window));
  }
  return out;
}

int n_kept(const std::vector<float>& scores, float threshold, bool strict) {
  return static_cast<int>(
      std::ranges::count_if(scores, [&](float s) { return strict ? s > threshold : s >= threshold; }));
}

std::string exact(float number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(number));
  return text;
}

TEST_CASE("density: the threshold is solved on dense scores, then on those of runs under it, until the share is near",
          "[engine][density]") {
  const Method method = GENERATE(Method{"sp-kv", "threshold=0,strict=0"}, Method{"wg-kv", "threshold=0,strict=0"},
                                 Method{"dms", "threshold=-1000000"}, Method{"kvzap", "threshold=-100"},
                                 Method{"threshold", "threshold=-1000000"});
  const double density = GENERATE(0.1, 0.3, 0.8);
  CAPTURE(method.name, density);
  const std::string start = std::string(method.name) + ":sinks=3,window=16,";
  const RunRecord run = record(start + "density=" + std::to_string(density));
  const bool strict = run.policy.value("strict") == 1;
  // The same by runs that are told their threshold.
  std::string told = method.keeps_all;
  float threshold = 0, nearest = 0;
  double least = 2;
  for (int round = 0; round <= 4 && least > 0.005; ++round) {
    const auto scores = judged_scores(record(start + told));
    std::vector<float> all;
    for (const auto& of_head : scores) all.insert(all.end(), of_head.begin(), of_head.end());
    const double error = std::abs(n_kept(all, threshold, strict) / static_cast<double>(all.size()) - density);
    if (round > 0 && error < least) least = error, nearest = threshold;
    threshold = solve_threshold(all, density, strict);
    told = "threshold=" + exact(threshold) + (strict ? ",strict=1" : ",strict=0");
  }
  CHECK(run.thresholds() == std::vector<float>(4, nearest));
  CHECK(least < 0.02);  // of 71 tokens of 4 heads
}

TEST_CASE("density: each head keeps its share of its own scores", "[engine][density]") {
  const RunRecord run = record("sp-kv:density=30%,density_over=head,sinks=3,window=16");
  const auto scores = judged_scores(run);
  double error = 0;
  for (std::size_t head = 0; head < 4; ++head)
    error += std::abs(n_kept(scores[head], run.thresholds()[head], false) - 0.3 * 71) / 71 / 4;
  CHECK(error < 0.02);
  CHECK([&] {
    const std::vector<float> found = run.thresholds();
    return std::set<float>(found.begin(), found.end()).size();
  }() == 4);
}

TEST_CASE("density: lifetimes are those of the rule under the thresholds that were found", "[engine][density]") {
  const std::string over = GENERATE("model", "head");
  const RunRecord run = record("sp-kv:density=40%,sinks=3,window=16,density_over=" + over);
  int n_left = 0;
  for (int head = 0; head < 4; ++head) {
    const auto& scores = run.scores.row(head / 2, head % 2);
    const auto& evict_at = run.evict_at.row(head / 2, head % 2);
    for (int t = 3; t < kTokens - kWindow; ++t) {
      const bool stays = scores[t] >= run.thresholds()[static_cast<std::size_t>(head)];
      REQUIRE(evict_at[t] == (stays ? kNever : t + kWindow));
      n_left += !stays;
    }
  }
  CHECK(n_left > 100);
  CHECK(what_if(run, run.policy).evict_at == run.evict_at);
}

TEST_CASE("density: the recorded policy, as text, gives the same run again", "[engine][density]") {
  const std::string over = GENERATE("model", "head");
  const RunRecord run = record("wg-kv:density=25%,window=16,density_over=" + over),
                  again = record(run.policy.to_string());
  CHECK(again.policy == run.policy);
  CHECK(again.thresholds() == run.thresholds());
  CHECK(again.evict_at == run.evict_at);
  CHECK(again.logprobs.size() == run.logprobs.size());
  if (over == "head") return;
  // And so does what it says that it found, without a pass.
  const std::string said = describe_density(run.policy, run.thresholds());
  const RunRecord by_number = record("wg-kv:window=16,threshold=" + said.substr(said.rfind(' ') + 1));
  CHECK(by_number.thresholds().empty());
  CHECK(by_number.evict_at == run.evict_at);
}

TEST_CASE(
    "density: a text that is read from its first token on is solved on all of it, a prompt and its answer on the prompt",
    "[engine][density]") {
  const PolicySpec policy = PolicySpec::parse("sp-kv:density=30%,sinks=3,window=16,density_over=head");
  const auto read = [&](int prompt_len, int chunk) {
    const ScoreFacts facts = engine::forced_pass(
        model(), {.text = "", .ids = ids(), .policy = policy, .prompt_len = prompt_len, .chunk = chunk});
    return facts.thresholds;
  };
  CHECK(read(0, 1) == test::feed(model(), ids(), kTokens, policy.to_string()).record.thresholds());
  CHECK(read(kPrompt, 0) == record(policy.to_string()).thresholds());
  CHECK(read(0, 1) != read(kPrompt, 0));
  CHECK(read(0, 7).size() == 4);  // what waits for the end of its chunk makes other scores
}

TEST_CASE("density: what is read again or goes on has the thresholds that it had, and solves none",
          "[engine][density]") {
  const std::string policy = "sp-kv:density=30%,sinks=3,window=16,density_over=head";
  const std::vector<float> other = {0.25f, -0.5f, 1.5f, 0};
  RunRequest request = test::request({ids().begin(), ids().begin() + kPrompt}, policy, kTokens - kPrompt);
  request.thresholds = other;
  const RunRecord run = engine::record_run(model(), request);
  CHECK(run.thresholds() == other);
  RunRequest rest = request;
  rest.answer_ids.emplace(run.ids.begin() + kPrompt, run.ids.begin() + kPrompt + 7);
  rest.draw_on = true;
  CHECK(engine::record_run(model(), rest).evict_at == run.evict_at);
  const ScoreFacts facts = engine::forced_pass(
      model(),
      {.text = "", .ids = run.ids, .policy = run.policy, .prompt_len = kPrompt, .chunk = 0, .thresholds = other});
  CHECK(facts.thresholds == other);

  const auto refusal = [&](std::vector<float> thresholds, const std::string& of = "sp-kv:density=30%") {
    RunRequest wrong = request;
    wrong.policy = PolicySpec::parse(of);
    wrong.thresholds = std::move(thresholds);
    try {
      engine::record_run(model(), wrong);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK_THAT(refusal({0, 0, 0}), Contains("4, one per KV head"));
  CHECK_THAT(refusal({0, 0, std::nanf(""), 0}), Contains("NaN"));
  CHECK_THAT(refusal(other, "sp-kv:threshold=1"), Contains("none: the policy has no density"));
}

TEST_CASE("density: a hybrid solves it on its global heads", "[engine][density]") {
  const RunRecord run = record("hybrid:heads=c,count=2,on=threshold,density=30%,window=16,density_over=head");
  REQUIRE(run.local_heads().size() == 4);
  for (std::size_t head = 0; head < 4; ++head)
    CHECK(std::isinf(run.thresholds()[head]) == (run.local_heads()[head] == 1));
}

TEST_CASE("density: what cannot be solved is one clear error", "[engine][density]") {
  CHECK_THAT(error_of("sp-kv:density=30%,sinks=4,window=16", 4),
             Contains("4 tokens, but none outside the sinks has a score"));
  CHECK(error_of("sp-kv:density=30%,sinks=4,window=64", 20) == "no error");  // a prompt within the window
  CHECK_THAT(error_of("threshold:threshold=0,density=30%"), Contains("both threshold and density"));
  const engine::LoadedModel bare = test::small_model();
  CHECK_THROWS_WITH(test::feed(bare, ids(), kPrompt, "wg-kv:density=30%"), Contains("a WG-KV gate"));
}

TEST_CASE("density: within a run it can be left for a threshold, and not be changed", "[engine][density]") {
  engine::Generation run(model(), test::request({ids().begin(), ids().begin() + kPrompt},
                                                "sp-kv:density=30%,window=16,density_over=head", kTokens - kPrompt));
  run.prefill();
  CHECK_THROWS_AS(run.change_policy(PolicySpec::parse("sp-kv:density=40%,window=16"), nullptr), Error);
  CHECK(run.heads().size() == 4);
  run.change_policy(PolicySpec::parse("sp-kv:threshold=1,window=16"), nullptr);
  CHECK(run.heads().empty());
  const StepFacts facts = run.step_forced(ids()[kPrompt]);
  CHECK(facts.lifetimes.size() == 4);  // no utility reaches 1
}

}  // namespace
}  // namespace kvscope
