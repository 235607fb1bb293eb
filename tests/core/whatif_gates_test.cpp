// What if, of a run that recorded no scores: by those that gates give its tokens.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/files/gate/gate_name.h"
#include "engine/core/policy/density.h"
#include "engine/core/policy/policy.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/protocol/events.h"
#include "engine/core/record/run_gate.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "tests/support/random_run.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using Catch::Matchers::Contains;
using test::random_run;
using test::run_difference;

namespace {

/// A run as one under `policy` has it that reads no gate.
RunRecord unscored(const std::string& policy = "full") {
  RunRecord run = random_run(5, {.policy = policy});
  run.scores = HeadSeries<float>(run.model.n_layers, run.model.n_kv_heads);
  run.scores.resize(run.ids.size(), std::nanf(""));
  run.scorer = {.kind = "", .delay = -1, .text = "what the model has"};
  return run;
}

/// A gate with the scores of another random run of the same size.
GateScores gate_of(const char* kind, std::uint64_t seed, int delay, const GateNumbers& numbers) {
  GateScores gate{.gate = {.kind = kind, .numbers = numbers, .delay = delay},
                  .text = std::string(kind) + ", delay " + std::to_string(delay),
                  .log_gamma = {},
                  .scores = random_run(seed, {.policy = "streaming:sinks=1,window=1"}).scores};
  for (int layer = 0; layer < gate.scores.n_layers(); ++layer) {
    for (int head = 0; head < gate.scores.n_kv_heads(); ++head) {
      auto& row = gate.scores.row(layer, head);
      std::fill(row.end() - delay, row.end(), std::nanf(""));
    }
  }
  return gate;
}

ScoresOfGates two_gates() {
  return {gate_of("wg_kv", 21, 0, {.threshold = 0.05, .strict = true, .window = 16, .n_sink = 2}),
          gate_of("kvpop_mlstm", 22, 16, {.window = 16, .n_sink = 3})};
}

std::string refusal(const RunRecord& run, const char* policy, const ScoresOfGates& gates) {
  try {
    what_if(run, PolicySpec::parse(policy), gates);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("what_if: a full run is asked about each gate's policy by that gate's scores and numbers", "[core][whatif]") {
  const RunRecord run = unscored();
  const ScoresOfGates gates = two_gates();
  struct Case {
    const char *asked, *becomes;
    std::size_t gate;
  };
  const Case one = GENERATE(Case{"wg-kv", "wg-kv:threshold=0.05,strict=1,sinks=2,window=16", 0},
                            Case{"wg-kv:threshold=0.3,sinks=0", "wg-kv:threshold=0.3,strict=1,sinks=0,window=16", 0},
                            Case{"kvpop:budget=90", "kvpop:budget=90,sinks=3,window=16", 1},
                            Case{"kvpop:budget=90,decay=0.9", "kvpop:budget=90,sinks=3,window=16,decay=0.9", 1},
                            Case{"threshold:threshold=0.1", "threshold:threshold=0.1,strict=1,sinks=2,window=16", 0});
  CAPTURE(one.asked);
  const RunRecord preview = what_if(run, PolicySpec::parse(one.asked), gates);
  const PolicySpec becomes = PolicySpec::parse(one.becomes);
  CHECK(preview.policy == becomes);
  CHECK(preview.scorer.kind == gates[one.gate].gate.kind);
  CHECK(preview.scorer.text == gates[one.gate].text);
  CHECK(preview.scorer.delay == gates[one.gate].gate.delay);
  CHECK(preview.ids == run.ids);
  bool leaves = false;
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      std::vector<std::int32_t> evict_at(run.ids.size(), kUndecided);
      policy_lifetimes(becomes, run.n_positions, gates[one.gate].scores.row(layer, head), run.queries(), evict_at,
                       nullptr);
      REQUIRE(preview.evict_at.row(layer, head) == evict_at);
      for (const std::int32_t at : evict_at) leaves |= at < kUndecided;
    }
  }
  CHECK(leaves);
  CHECK(lacks_scores(run, PolicySpec::parse(one.asked)));
  CHECK_THAT(refusal(run, "wg-kv:window=16", {}), Contains("no recorded score") && Contains("give the model"));
}

TEST_CASE("what_if: what a run recorded goes before what a gate says, if the policy reads it", "[core][whatif]") {
  RunRecord run = random_run(5, {.policy = "kvpop:budget=40,window=16"});
  run.scorer.kind = "kvpop_mlstm";
  const ScoresOfGates gates = two_gates();
  const PolicySpec smaller = PolicySpec::parse("kvpop:budget=30,window=16"), other = PolicySpec::parse("wg-kv");
  CHECK_FALSE(lacks_scores(run, smaller));
  CHECK(run_difference(what_if(run, smaller, gates), what_if(run, smaller)) == "");
  CHECK(what_if_note(run, what_if(run, smaller, gates)) == "");
  CHECK(lacks_scores(run, other));
  const RunRecord preview = what_if(run, other, gates);
  CHECK(preview.scorer.kind == "wg_kv");
  CHECK(what_if_note(run, preview) ==
        "the scores come from wg_kv, delay 0 in a dense pass over the run's tokens, whose hidden states differ from "
        "those of a run that evicts");
  CHECK(what_if_note(unscored(), what_if(unscored(), other, gates)) ==
        "the scores come from wg_kv, delay 0 in a dense pass over the run's tokens");
  CHECK_FALSE(lacks_scores(unscored(), PolicySpec::parse("streaming")));
  // threshold takes any score, and a run of it would have those of the gate that is there.
  const PolicySpec any = PolicySpec::parse("threshold:threshold=0.1,sinks=2,window=16");
  CHECK_FALSE(lacks_scores(run, any));
  CHECK_FALSE(lacks_scores(run, any, "kvpop_mlstm"));
  CHECK(lacks_scores(run, any, "wg_kv"));
  CHECK_FALSE(lacks_scores(run, PolicySpec::parse("streaming"), "wg_kv"));
  CHECK(what_if(run, any, gates).scorer.kind == "wg_kv");
  CHECK(what_if(run, any).scorer == run.scorer);
  run.scorer.kind = "random";  // drawn, and no gate's
  CHECK(lacks_scores(run, PolicySpec::parse("threshold")));
  CHECK_FALSE(lacks_scores(run, PolicySpec::parse("random:budget=40")));
}

TEST_CASE("what_if: scores of another gate of its kind are not what a run by the loaded one would see",
          "[core][whatif]") {
  RunRecord run = random_run(5, {.policy = "kvpop:budget=40,window=16"});
  run.scorer = {.kind = "kvpop_mlstm", .delay = 16, .text = scorer_text("kvpop_mlstm", 16, "first"), .gate = "first"};
  ScoresOfGates gates = two_gates();
  gates[1].text = scorer_text("kvpop_mlstm", 16, "second"), gates[1].name = "second";
  const PolicySpec smaller = PolicySpec::parse("kvpop:budget=30,window=16");
  CHECK(gate_of(run) == "first");
  CHECK(lacks_scores(run, smaller, "kvpop_mlstm", "second"));
  CHECK_FALSE(lacks_scores(run, smaller, "kvpop_mlstm", "first"));
  CHECK_FALSE(lacks_scores(run, smaller, "kvpop_mlstm"));  // which it is nobody knows
  CHECK(what_if(run, smaller, gates).scores.row(0, 1)[3] == gates[1].scores.row(0, 1)[3]);
  CHECK(gate_of(what_if(run, smaller, gates)) == "second");
  CHECK(gate_of(what_if(run, smaller)) == "first");
  CHECK(gate_of(what_if(run, PolicySpec::parse("streaming:sinks=1,window=16"))) == "");  // which reads no score
  run.scorer.gate.clear();                                                               // of a trace that does not say
  CHECK(gate_of(run) == "");
  CHECK_FALSE(lacks_scores(run, smaller, "kvpop_mlstm", "second"));
  CHECK(gate_of(unscored()) == "");
}

TEST_CASE("A gate is named as its paper names it, and by its place", "[core]") {
  CHECK(scorer_text("kvpop_mlstm", 64, "kvpop-mlstm") == "KVpop mLSTM, delay 64, gate kvpop-mlstm");
  CHECK(scorer_text("wg_kv", 0) == "WG-KV, delay 0");
  CHECK(scorer_titles(std::array<std::string_view, 2>{"dms", "dms_separate"}) == "DMS");
  CHECK(scorer_titles(std::array<std::string_view, 2>{"kvpop_mlp", "sp_kv"}) == "KVpop MLP or SP-KV");
  CHECK(gate_name("/nowhere/wgkv-0.01.pt") == "wgkv-0.01");
  const test::TempFolder folder;
  std::filesystem::create_directories(folder / "wgkv-0.01");
  CHECK(gate_name(folder / "wgkv-0.01") == "wgkv-0.01");
  CHECK(gate_name(folder / "wgkv-0.01/") == "wgkv-0.01");
}

TEST_CASE("what_if: a density is solved on the gate's scores of the prompt", "[core][whatif]") {
  const RunRecord run = unscored();
  const ScoresOfGates gates = two_gates();
  const RunRecord preview = what_if(run, PolicySpec::parse("wg-kv:density=30%"), gates);
  REQUIRE(preview.thresholds().size() == 6);
  const PolicySpec spec = PolicySpec::parse("wg-kv:density=30%,strict=1,sinks=2,window=16");
  HeadSeries<float> scores = gates[0].scores;
  scores.resize(static_cast<std::size_t>(run.prompt_len), std::nanf(""));
  const RetentionGeometry geometry = spec.geometry(run.n_positions);
  CHECK(preview.thresholds() ==
        solve_density(policy_of(spec).plan(spec, geometry), geometry, scores, run.prompt_len, 0));
}

TEST_CASE("what_if: each head's own decay is the gate's where it is asked for", "[core][whatif]") {
  const RunRecord run = unscored();
  ScoresOfGates gates = two_gates();
  CHECK_THAT(refusal(run, "kvpop:budget=40,decay=learned", gates), Contains("the gate has no log_gamma"));
  gates[1].log_gamma = {-0.1f, -0.01f, 0, -0.2f, -1, -0.5f};
  gates[1].gate.numbers->has_decay = true;
  const RunRecord preview = what_if(run, PolicySpec::parse("kvpop:budget=40,decay=learned"), gates);
  CHECK(preview.log_gamma() == gates[1].log_gamma);
  CHECK(preview.evict_at.row(0, 2) ==
        what_if(run, PolicySpec::parse("kvpop:budget=40,decay=1"), gates).evict_at.row(0, 2));
  CHECK(preview.evict_at.row(1, 1) !=
        what_if(run, PolicySpec::parse("kvpop:budget=40,decay=1"), gates).evict_at.row(1, 1));
}

TEST_CASE("what_if: scores that do not fit the run, and windows that a delayed gate has not seen, are refused",
          "[core][whatif]") {
  const RunRecord run = unscored();
  CHECK_THAT(refusal(run, "kvpop:budget=60,window=32", two_gates()), Contains("window=16"));
  CHECK_THAT(refusal(run, "sp-kv", two_gates()), Contains("no recorded score"));
  ScoresOfGates gates = two_gates();
  gates[0].scores.row(1, 2).pop_back();
  CHECK_THAT(refusal(run, "wg-kv", gates), Contains(std::to_string(run.n_tokens() - 1) + " scores"));
  gates = two_gates();
  gates[0].log_gamma = {0, 0, 0, 0, 0, 0.5f};
  CHECK_THAT(refusal(run, "wg-kv", gates), Contains("0 or less"));
  gates = two_gates();
  gates[0].scores = HeadSeries<float>(1, 3);
  CHECK_THAT(refusal(run, "wg-kv", gates), Contains("1 x 3 heads"));
}

TEST_CASE("protocol: scores of gates come back as they were, and what does not fit the model is refused",
          "[core][protocol]") {
  const RunRecord run = unscored();
  ScoresOfGates gates = two_gates();
  gates[1].log_gamma = {-0.1f, -0.01f, 0, -0.2f, -1, -0.5f};
  const nlohmann::json event = protocol::done_gate_scores(7, gates, run.n_tokens());
  const ScoresOfGates back =
      protocol::gate_scores_from_event(nlohmann::json::from_cbor(nlohmann::json::to_cbor(event)), run.model);
  REQUIRE(back.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(back[i].gate.kind == gates[i].gate.kind);
    CHECK(back[i].gate.delay == gates[i].gate.delay);
    CHECK(back[i].gate.numbers->threshold == gates[i].gate.numbers->threshold);
    CHECK(back[i].text == gates[i].text);
    CHECK(back[i].log_gamma == gates[i].log_gamma);
    for (int head = 0; head < 6; ++head) {
      const auto &a = back[i].scores.row(head / 3, head % 3), &b = gates[i].scores.row(head / 3, head % 3);
      CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end(),
                       [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); }));
    }
  }
  ModelInfo other = run.model;
  other.n_layers = 3;
  CHECK_THROWS_WITH(protocol::gate_scores_from_event(event, other), Contains("scores"));
  nlohmann::json wrong = event;
  wrong["n_tokens"] = run.n_tokens() - 1;
  CHECK_THROWS_WITH(protocol::gate_scores_from_event(wrong, run.model), Contains("scores"));
  const auto request = protocol::request_from_json(protocol::to_json(GateScoresRequest{run.ids}, 3));
  CHECK(std::get<GateScoresRequest>(request).ids == run.ids);
}
