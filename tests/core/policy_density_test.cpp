// A threshold that is solved for a share of tokens, against every threshold there could be.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>

#include "engine/core/policy/density.h"
#include "engine/core/policy/gates_of_model.h"
#include "engine/core/study/measure/what_if.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Contains;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int n_kept(const std::vector<float>& scores, float threshold, bool strict) {
  return static_cast<int>(
      std::ranges::count_if(scores, [&](float s) { return strict ? s > threshold : s >= threshold; }));
}

/// How many the best of all thresholds keeps: each score, what lies beside it, and both infinities are tried.
int best_kept(const std::vector<float>& scores, double density, bool strict) {
  std::set<float> tried = {-kInfinity, kInfinity};
  for (const float s : scores) {
    if (!std::isnan(s)) tried.insert({s, std::nextafter(s, kInfinity), std::nextafter(s, -kInfinity)});
  }
  const double wanted = density * static_cast<double>(scores.size());
  int best = -1;
  for (const float threshold : tried) {
    const int k = n_kept(scores, threshold, strict);
    const double off = std::abs(k - wanted), least = std::abs(best - wanted);
    if (best < 0 || off < least || (off == least && k > best)) best = k;
  }
  return best;
}

HeadSeries<float> random_scores(int n_tokens, int n_values, std::mt19937_64& random) {
  HeadSeries<float> scores(2, 3);
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 3; ++head) {
      for (int t = 0; t < n_tokens; ++t)  // heads differ in where their scores lie
        scores.row(layer, head).push_back(static_cast<float>(random() % n_values) / 16 + static_cast<float>(head));
    }
  }
  return scores;
}

std::string error_of(const std::string& policy) {
  try {
    PolicySpec::parse(policy);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

RetentionPlan plan_of(const std::string& text) {
  const PolicySpec spec = PolicySpec::parse(text);
  return policy_of(spec).plan(spec, spec.geometry(100));
}

}  // namespace

TEST_CASE("density: no threshold keeps a share that is nearer, and of two as near the larger stays",
          "[core][density]") {
  std::mt19937_64 random(7);
  const bool strict = GENERATE(false, true);
  const int n_values = GENERATE(1, 2, 5, 1000);  // few: many ties
  for (int round = 0; round < 200; ++round) {
    std::vector<float> scores(1 + random() % 40);
    for (float& s : scores) s = static_cast<float>(random() % static_cast<unsigned>(n_values)) / 8 - 1;
    if (round % 3 == 0) scores[random() % scores.size()] = std::nanf("");
    if (round % 4 == 0) scores[random() % scores.size()] = random() % 2 == 0 ? kInfinity : -kInfinity;
    const double density = round % 5 == 0 ? 1 : static_cast<double>(1 + random() % 999) / 1000;
    INFO("round " << round << ", density " << density);
    const float threshold = solve_threshold(scores, density, strict);
    REQUIRE(n_kept(scores, threshold, strict) == best_kept(scores, density, strict));
  }
}

TEST_CASE("density: a threshold lies midway between the last that stays and the first that leaves", "[core][density]") {
  const std::vector<float> scores = {0.1f, 0.9f, 0.5f, 0.7f};
  CHECK(solve_threshold(scores, 0.5, false) == Approx(0.6));
  CHECK(solve_threshold(scores, 0.5, true) == Approx(0.6));
  CHECK(solve_threshold(scores, 0.375, false) == Approx(0.6));  // one or two: two
  const std::vector<float> neighbours = {1.0f, std::nextafter(1.0f, 2.0f)};
  CHECK(n_kept(neighbours, solve_threshold(neighbours, 0.5, false), false) == 1);
  CHECK(n_kept(neighbours, solve_threshold(neighbours, 0.5, true), true) == 1);
  CHECK_THROWS_AS(solve_threshold({}, 0.5, false), std::invalid_argument);
}

TEST_CASE("density: over all heads one threshold, over each head its own, of tokens outside sinks and window",
          "[core][density]") {
  std::mt19937_64 random(11);
  const int n = 60, n_sink = 4, window = 16;
  const HeadSeries<float> scores = random_scores(n, GENERATE(4, 400), random);
  const std::string rest = ",sinks=4,window=16,strict=" + std::string(GENERATE("0", "1"));
  const RetentionGeometry geometry = PolicySpec::parse("sp-kv:" + rest.substr(1)).geometry(n);
  const auto judged = [&](int head) {
    const auto& row = scores.row(head / 3, head % 3);
    return std::vector<float>(row.begin() + n_sink, row.begin() + (n - window));
  };
  for (const double density : {0.01, 0.25, 0.3333, 0.5, 1.0}) {
    const std::string share = "sp-kv:density=" + std::to_string(density);
    const RetentionPlan together = plan_of(share + rest), each = plan_of(share + ",density_over=head" + rest);
    const std::vector<float> one = solve_density(together, geometry, scores, n, 0),
                             own = solve_density(each, geometry, scores, n, 0);
    REQUIRE(one.size() == 6);
    REQUIRE(own.size() == 6);
    std::vector<float> all;
    int kept = 0;
    for (int head = 0; head < 6; ++head) {
      CHECK(one[head] == one[0]);
      const std::vector<float> of_head = judged(head);
      all.insert(all.end(), of_head.begin(), of_head.end());
      kept += n_kept(of_head, one[head], together.strict);
      CHECK(n_kept(of_head, own[head], each.strict) == best_kept(of_head, each.density, each.strict));
    }
    CHECK(kept == best_kept(all, together.density, together.strict));
  }
}

TEST_CASE("density: local heads count nowhere", "[core][density]") {
  std::mt19937_64 random(12);
  const HeadSeries<float> scores = random_scores(60, 400, random);
  RetentionPlan plan = plan_of("sp-kv:density=25%,sinks=4,window=16");
  plan.heads.assign(6, {.locality = Locality::policy});
  plan.heads[1].locality = Locality::global;
  const RetentionGeometry geometry{.n_sink = 4, .window = 16};
  std::vector<float> judged(scores.row(0, 1).begin() + 4, scores.row(0, 1).begin() + 44);
  CHECK(solve_density(plan, geometry, scores, 60, 0) == std::vector<float>(6, solve_threshold(judged, 0.25, false)));
  plan.density_per_head = true;
  CHECK(solve_density(plan, geometry, scores, 60, 0)[0] == kInfinity);
  CHECK(solve_density(plan, geometry, scores, 60, 0)[1] == solve_threshold(judged, 0.25, false));
}

TEST_CASE("density: a prompt within sinks and window is solved on all that will leave it, and without any refused",
          "[core][density]") {
  std::mt19937_64 random(13);
  const HeadSeries<float> scores = random_scores(30, 400, random);
  const RetentionPlan plan = plan_of("sp-kv:density=25%,sinks=4,window=64,density_over=head");
  const RetentionGeometry geometry{.n_sink = 4, .window = 64};
  const auto& row = scores.row(1, 2);
  CHECK(solve_density(plan, geometry, scores, 30, 0)[5] == solve_threshold(std::span(row).subspan(4), 0.25, false));
  CHECK(solve_density(plan, geometry, scores, 30, 1)[5] == solve_threshold(std::span(row).subspan(4, 25), 0.25, false));
  CHECK_THROWS_WITH(solve_density(plan, geometry, scores, 4, 0),
                    Contains("4 tokens, but none outside the sinks has a score") && Contains("more than 4") &&
                        Contains("threshold=NUMBER"));
  CHECK_THROWS_AS(solve_density(plan, geometry, scores, 30, 64), Error);  // a delayed scorer has said nothing yet
}

TEST_CASE("density: it is written as a share or in percent, in the place of a threshold", "[core][density][policy]") {
  const PolicySpec spec = PolicySpec::parse("wg-kv:density=25%");
  CHECK(spec.value("density") == 0.25);
  CHECK(spec == PolicySpec::parse("wg-kv:density=0.25"));
  CHECK(spec.to_string() == "wg-kv:density=0.25,strict=1,sinks=0,window=256,read=0,pool=0,drop=0.1,observe=256");
  CHECK(spec.written() == "wg-kv:density=0.25");
  CHECK(PolicySpec::parse("wg-kv:density=33.3%").value("density") == 0.333);
  CHECK(PolicySpec::parse("sp-kv:density=100%").value("density") == 1);
  CHECK(PolicySpec::parse("threshold:density=10%,density_over=head").to_string() ==
        "threshold:density=0.1,density_over=head,strict=0,sinks=4,window=64,read=0,pool=0,drop=0.1,observe=256");
  CHECK(PolicySpec::parse("wg-kv:threshold=0.3,density=none").value("threshold") == 0.3);
  CHECK(error_of("wg-kv:threshold=0.3,density=25%") ==
        "policy wg-kv: density: both threshold and density; expected one of them");
  for (const char* bad : {"0", "0%", "-1", "101%", "1.5", "all", "", "%"}) {
    INFO(bad);
    CHECK_THAT(error_of("wg-kv:density=" + std::string(bad)), Contains("0.001 to 1, or none"));
  }
  CHECK_THAT(error_of("kvpop:density=25%"), Contains("density"));
}

TEST_CASE("density: a gate's threshold is not taken beside it, and neither is that of a run",
          "[core][density][policy]") {
  const GateNumbers gate{.threshold = 0.3, .strict = true, .window = 24, .n_sink = 2};
  const PolicySpec run = with_gates(PolicySpec::parse("sp-kv:density=40%"), {.scorer = &gate});
  CHECK(run.to_string() == "sp-kv:density=0.4,strict=1,sinks=2,window=24,read=0,pool=0,drop=0.1,observe=256");
  CHECK(PolicySpec::parse(run.to_string()) == run);
  CHECK(policy_after(PolicySpec::parse("sp-kv:window=20"), run).value("density") == 0.4);
  const PolicySpec written = policy_after(PolicySpec::parse("sp-kv:threshold=0.9"), run);
  CHECK(written.value("density") == 0);
  CHECK(written.value("threshold") == 0.9);
  const PolicySpec by_threshold = with_gates(PolicySpec::parse("sp-kv"), {.scorer = &gate});
  CHECK(policy_after(PolicySpec::parse("sp-kv:density=40%"), by_threshold) == run);
}

TEST_CASE("density: the words say the share and the thresholds that were found", "[core][density]") {
  const PolicySpec spec = PolicySpec::parse("wg-kv:density=12.5%");
  CHECK(describe_density(spec, {}) == "");
  CHECK(describe_density(spec, std::vector<float>{0.1f, 0.1f}) == "density 12.5 %: threshold 0.100000001");
  CHECK(describe_density(spec, std::vector<float>{0.5f, 0.25f, 0.75f}) ==
        "density 12.5 % of each head: thresholds 0.25 ... 0.75, median 0.5");
}

TEST_CASE("density: a preview solves it on the recorded scores of the prompt", "[core][density][whatif]") {
  RunRecord run = random_run(5, {.policy = "threshold:window=16,threshold=0.2"});
  run.scorer = {.kind = "sp_kv", .delay = 0, .text = "sp kv, delay 0"};
  const std::string over = GENERATE("model", "head");
  const std::string text = "threshold:density=30%,window=16,density_over=" + over;
  const RunRecord preview = what_if(run, PolicySpec::parse(text));
  const PolicySpec spec = preview.policy;
  const RetentionGeometry geometry = spec.geometry(run.n_positions);
  const RetentionPlan plan = policy_of(spec).plan(spec, geometry);
  REQUIRE(preview.thresholds() == solve_density(plan, geometry, run.scores, run.prompt_len, 0));
  for (int head = 0; head < 6; ++head) {
    const auto& scores = run.scores.row(head / 3, head % 3);
    const auto& evict_at = preview.evict_at.row(head / 3, head % 3);
    for (int t = geometry.n_sink; t < run.queries() - 16; ++t)
      REQUIRE(evict_at[t] == (scores[t] >= preview.thresholds()[head] ? kNever : t + 16));
  }
  // What a run found stands, whatever its scores say.
  RunRecord found = preview;
  set_heads(found, &HeadRule::threshold, std::vector<float>(6, 0.125f));
  CHECK(what_if(found, PolicySpec::parse(text)).thresholds() == found.thresholds());
  CHECK(what_if(found, PolicySpec::parse("threshold:density=31%,window=16")).thresholds() != found.thresholds());
  CHECK(what_if(found, PolicySpec::parse("threshold:threshold=0.2,window=16")).thresholds().empty());
  CHECK(found.plan(1, 2).threshold == 0.125f);
}
