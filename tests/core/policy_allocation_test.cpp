// Budgets of heads: by PyramidKV's and AdaKV's formulas (make_allocation_golden.py), from a file, in what-if.

#include <catch2/catch.hpp>
#include <numeric>

#include "engine/core/policy/allocation.h"
#include "engine/core/policy/policy.h"
#include "engine/core/record/gate_scores.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Contains;

namespace {

const nlohmann::json& golden() {
  static const nlohmann::json all = read_golden("tests/core/golden/allocation.json");
  return all;
}

/// Whole places are within one of the paper's real number.
void check_near(const std::vector<int>& places, const nlohmann::json& real, double most) {
  REQUIRE(places.size() == real.size());
  for (std::size_t i = 0; i < places.size(); ++i) CHECK(std::abs(places[i] - real[i].get<double>()) < most);
}

}  // namespace

TEST_CASE("allocation: PyramidKV's layers are those of a plain script, and its paper's line", "[core][allocation]") {
  for (const auto& one : golden()["pyramid"]) {
    const int layers = one["layers"], places = one["places"];
    CAPTURE(layers, places);
    const std::vector<int> found = pyramid_places(layers, places, one["beta"], one["limit"]);
    CHECK(found == one["expected"].get<std::vector<int>>());
    // The step is a whole number of tokens: the last layer is off by less than one a layer.
    if (one.contains("real")) check_near(found, one["real"], layers + 1);
  }
}

TEST_CASE("allocation: AdaKV's heads are those of a plain script, its paper's numbers, and keep the sum",
          "[core][allocation]") {
  for (const auto& one : golden()["ada"]) {
    const auto worth = one["worth"].get<std::vector<std::vector<float>>>();
    const int places = one["places"];
    CAPTURE(one.dump());
    const std::vector<int> found = ada_places(worth, places, one["safeguard"]);
    CHECK(found == one["expected"].get<std::vector<int>>());
    CHECK(std::accumulate(found.begin(), found.end(), 0) == places * static_cast<int>(worth.size()));
    if (one.contains("real")) check_near(found, one["real"], 1);
  }
}

TEST_CASE("allocation: a NaN is worth the least, and a safeguard of 1 divides evenly", "[core][allocation]") {
  const std::vector<std::vector<float>> worth = {{1, 2, 3, 4}, {NAN, NAN, NAN, NAN}};
  CHECK(ada_places(worth, 2, 0) == std::vector<int>{4, 0});
  CHECK(ada_places(worth, 2, 1) == std::vector<int>{2, 2});
  CHECK(ada_places(worth, 2, 0.5) == std::vector<int>{3, 1});
}

TEST_CASE("allocation: budgets are read from lines or one line, and a damaged text names its line",
          "[core][allocation]") {
  CHECK(budgets_of_text("# layer 0\n8 16\n\n 24,32 # the last\n", "f") == std::vector<std::int32_t>{8, 16, 24, 32});
  CHECK(budgets_of_text("8,16;24,32", "f") == budgets_of_text("8 16\n24\t32", "f"));
  CHECK_THAT(error_of([] { budgets_of_text("8 16\n24\n", "f"); }), Contains("f: line 2: 1 numbers; expected 2"));
  CHECK_THAT(error_of([] { budgets_of_text("8 x\n", "f"); }), Contains("f: line 1: \"x\""));
  CHECK_THAT(error_of([] { budgets_of_text("8 -1\n", "f"); }), Contains("f: line 1: \"-1\""));
  CHECK_THAT(error_of([] { budgets_of_text("8 1e9\n", "f"); }), Contains("line 1"));
  CHECK_THAT(error_of([] { budgets_of_text("# nothing\n", "f"); }), Contains("f: no numbers"));
}

TEST_CASE("allocation: head rules refuse budgets that are too few, too small, or of a policy without any",
          "[core][allocation]") {
  const auto rules = [](const char* text, std::vector<std::int32_t> budgets) {
    const PolicySpec spec = PolicySpec::parse(text);
    const RetentionGeometry geometry = spec.geometry(200);
    return head_rules(spec, geometry, policy_of(spec).plan(spec, geometry),
                      {.n_layers = 2, .n_kv_heads = 2, .budgets = budgets});
  };
  const HeadRules found = rules("snapkv:budget=40,window=8", {8, 30, 50, 200});
  REQUIRE(found.size() == 4);
  CHECK(found[0].top_k == 0);
  CHECK(found[3].budget() == 200);
  CHECK_THAT(error_of([&] { rules("snapkv:budget=40,window=8", {40, 40}); }), Contains("2 numbers; expected 4"));
  CHECK_THAT(error_of([&] {
               rules("snapkv:budget=40,window=8", {40, 40, 7, 40});
             }),
             Contains("layer 1 head 0: 7 tokens; expected at least 8"));
  CHECK_THAT(error_of([&] {
               rules("h2o:budget=40,window=8", {40, 8, 40, 40});
             }),
             Contains("layer 0 head 1: 8 tokens; expected at least 9"));
  CHECK_THAT(error_of([&] { rules("streaming:window=8", {40, 40, 40, 40}); }), Contains("under streaming"));
  CHECK_THAT(error_of([&] {
               rules("kvpop:budget=40,window=8,capacity=pooled", {40, 40, 40, 40});
             }),
             Contains("each head has a budget"));
  CHECK_THAT(error_of([] { PolicySpec::parse("h2o:prefill=sparse,window=8,allocation=ada").geometry(600); }),
             Contains("allocation: ada with prefill=sparse; expected prefill=dense"));
}

TEST_CASE("allocation: a preview divides the budget by the recorded scores, and each head keeps its part",
          "[core][allocation][whatif]") {
  RunRecord run = random_run(5, {.policy = "top-k:budget=60,sinks=4,window=16"});
  run.scorer = {.kind = "sp_kv", .delay = 0, .text = "sp kv, delay 0"};
  const RunRecord preview = what_if(run, PolicySpec::parse("top-k:budget=60,sinks=4,window=16,allocation=ada"));
  const std::vector<std::int32_t> budgets = preview.budgets();
  REQUIRE(budgets.size() == 6);
  for (int layer = 0; layer < 2; ++layer) {
    std::vector<std::vector<float>> worth(3);
    for (int head = 0; head < 3; ++head) {
      const std::vector<float>& scores = run.scores.row(layer, head);
      worth[static_cast<std::size_t>(head)].assign(scores.begin() + 4, scores.begin() + run.prompt_len - 16);
      int kept = 0;
      for (const std::int32_t at : preview.evict_at.row(layer, head)) kept += at == kNever;
      CHECK(kept == budgets[static_cast<std::size_t>(3 * layer + head)] - 16);  // those in the window are undecided
    }
    const std::vector<int> places = ada_places(worth, 40, 0.2);
    for (int head = 0; head < 3; ++head)
      CHECK(budgets[static_cast<std::size_t>(3 * layer + head)] == places[static_cast<std::size_t>(head)] + 20);
  }
  CHECK_THAT(describe_budgets(preview.policy, preview.heads), Contains("by AdaKV") && Contains("mean 60"));
  // The run's own budgets hold where it asked the same.
  RunRecord own = preview;
  set_heads(own, &HeadRule::top_k, std::vector<std::int32_t>{40, 40, 40, 10, 30, 80});
  CHECK(what_if(own, own.policy).budgets() == own.budgets());
  CHECK(what_if(run, PolicySpec::parse("top-k:budget=60,sinks=4,window=16")).heads.empty());
}
