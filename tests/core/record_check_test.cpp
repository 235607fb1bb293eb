// The rules of a run that the file's and the wire's tests never broke one at a time: each with what its line must say.
// Most were found by taking the rule away (tests/mutants).
#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "engine/core/record/check.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Contains;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

/// What check_run() says of a good run after a change.
std::string refusal(const std::function<void(RunRecord&)>& change, const RandomRunOptions& options = {}) {
  RunRecord run = random_run(3, options);
  check_run(run);
  change(run);
  return error_of([&] { check_run(run); });
}

/// A run of 2 layers of 3 heads in progress: the prompt's four tokens.
RunRecord begun() {
  const RunRecord whole = random_run(3);
  RunRecord run;
  run.model = whole.model;
  run.n_positions = 20;
  run.ids = {1, 2, 3, 4};
  return run;
}

RunStarted started() {
  RunStarted facts;
  facts.head.n_positions = 20;
  facts.ids = {1, 2};
  for (const char* piece : {"a", "b"}) facts.pieces.push_back(piece);
  facts.head.policy = random_run(3).policy;
  facts.head.policy.budget = BudgetSpec{BudgetSpec::Kind::tokens, 20};
  return facts;
}

}  // namespace

TEST_CASE("run rules: pages that were read are counted from 0, rise, and come in the order of their queries",
          "[core][record]") {
  const auto read = [](std::int32_t q, std::vector<std::int32_t> pages) {
    return PageRead{.q = q, .layer = 0, .kv_head = 1, .pages = std::move(pages)};
  };
  CHECK(refusal([&](RunRecord& run) { run.reads = {read(5, {0, 2}), read(5, {1}), read(6, {0})}; }) == "no error");
  CHECK_THAT(refusal([&](RunRecord& run) { run.reads = {read(5, {-1})}; }), Contains("page -1; expected 0 to"));
  CHECK_THAT(refusal([&](RunRecord& run) { run.reads = {read(5, {10000})}; }), Contains("page 10000; expected 0 to"));
  CHECK_THAT(refusal([&](RunRecord& run) { run.reads = {read(5, {2, 2})}; }), Contains("page 2 after page 2"));
  CHECK_THAT(refusal([&](RunRecord& run) {
               run.reads = {read(6, {0}), read(5, {0})};
             }),
             Contains("query 5 after query 6; expected queries rising"));
}

TEST_CASE("run rules: what there is one of for each head is there for every head, and in its range", "[core][record]") {
  CHECK(refusal([](RunRecord& run) { make_local(run, {0, 1, 0, 1, 1, 0}); }) == "no error");
  CHECK_THAT(refusal([](RunRecord& run) { run.heads.resize(3); }), Contains("heads: 3 heads; expected 6, or none"));
  CHECK_THAT(refusal([](RunRecord& run) {
               make_local(run, {0, 0, 0, 0, 0, 0});
               run.heads[2].locality = static_cast<Locality>(3);
             }),
             Contains("locality: 3; expected 0 to 2"));
  CHECK(refusal([](RunRecord& run) { set_heads(run, &HeadRule::log_gamma, std::vector<float>(6, -0.5f)); }) ==
        "no error");
  for (const float bad : {0.1f, kNaN, -kInf}) {
    CHECK_THAT(refusal([&](RunRecord& run) { set_heads(run, &HeadRule::log_gamma, std::vector<float>(6, bad)); }),
               Contains("log_gamma: "));
  }
  for (const auto field : {&HeadRule::n_sink, &HeadRule::window, &HeadRule::top_k}) {
    CHECK_THAT(refusal([&](RunRecord& run) { set_heads(run, field, std::vector<std::int32_t>(6, -1)); }),
               Contains("-1; expected 0 to"));
  }
  CHECK(refusal([](RunRecord& run) { set_heads(run, &HeadRule::threshold, std::vector<float>(6, kInf)); }) ==
        "no error");
  CHECK_THAT(refusal([](RunRecord& run) { set_heads(run, &HeadRule::threshold, std::vector<float>(6, kNaN)); }),
             Contains("threshold: nan"));
}

TEST_CASE("run rules: series of another number of layers or heads are refused before a row is looked at",
          "[core][record]") {
  for (const auto& [layers, heads] : {std::pair{1, 3}, std::pair{3, 3}, std::pair{2, 2}, std::pair{2, 4}}) {
    const auto odd = [&](HeadSeries<float>& series, std::size_t length) {
      series = HeadSeries<float>(layers, heads);
      for (int layer = 0; layer < layers; ++layer) {
        for (int head = 0; head < heads; ++head) series.row(layer, head).assign(length, 0.5f);
      }
    };
    CAPTURE(layers, heads);
    const std::string says = std::to_string(layers) + " layers of " + std::to_string(heads) + "; expected 2 of 3";
    CHECK_THAT(refusal([&](RunRecord& run) { odd(run.scores, run.ids.size()); }), Contains("scores: " + says));
    CHECK_THAT(refusal([&](RunRecord& run) { odd(run.future_mass, run.ids.size()); }),
               Contains("future_mass: " + says));
    CHECK_THAT(
        refusal([&](RunRecord& run) { odd(run.output_error.group_damage, run.queries()); }, {.output_error = true}),
        Contains("group_damage: " + std::to_string(layers) + " x " + std::to_string(heads) + " rows"));
  }
}

TEST_CASE("run rules: a start needs a model, its first tokens, and a piece for each", "[core][record]") {
  RunRecord none;
  none.model = random_run(3).model;
  CHECK(error_of([&] { check_started(none, started()); }) == "no error");
  for (int ModelInfo::*field : {&ModelInfo::n_layers, &ModelInfo::n_kv_heads}) {
    RunRecord empty = none;
    empty.model.*field = 0;
    CHECK_THAT(error_of([&] { check_started(empty, started()); }), Contains("a run before a model was loaded"));
  }
  RunStarted short_of_pieces = started();
  short_of_pieces.ids.push_back(3);
  CHECK_THAT(error_of([&] { check_started(none, short_of_pieces); }), Contains("pieces: 2 pieces; expected 3"));
}

TEST_CASE("run rules: a step has a piece for each token, and log-probabilities of positions that there are",
          "[core][record]") {
  const auto refused = [](const std::function<void(StepFacts&)>& change) {
    StepFacts facts;
    facts.n_tokens = 4;
    facts.ids = {7};
    facts.pieces.push_back("x");
    facts.logprobs = {-1, -2};
    change(facts);
    return error_of([&] { check_step(begun(), facts); });
  };
  CHECK(refused([](StepFacts&) {}) == "no error");
  CHECK_THAT(refused([](StepFacts& facts) { facts.pieces.push_back("y"); }), Contains("pieces: 2 pieces; expected 1"));
  CHECK_THAT(refused([](StepFacts& facts) { facts.logprobs_from = -1; }), Contains("logprobs: 2 from position -1"));
  CHECK_THAT(refused([](StepFacts& facts) { facts.logprobs_from = 4; }), Contains("logprobs: 2 from position 4"));
  CHECK_THAT(refused([](StepFacts& facts) { facts.logprobs = {0.5f}; }), Contains("logprobs: 0.5"));
}
