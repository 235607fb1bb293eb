// Decisions of a prompt that are not facts yet: spread() against plain loops, and everything that may meet either.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/protocol/events.h"
#include "engine/core/record/assemble.h"
#include "engine/core/support/random.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

constexpr int kTokens = 40;

/// A head's decisions over queries 10 to 39 of a chunk, and the same as facts at the end of `wanted`.
HeadDecisions decisions(int layer, int kv_head, StepFacts& wanted, Random& random) {
  HeadDecisions head{.layer = static_cast<std::int16_t>(layer), .kv_head = static_cast<std::int16_t>(kv_head)};
  head.first_scored = 6;
  for (std::int32_t q = 10; q < kTokens; ++q) {
    const float score = random.below(5) == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(q) / 8;
    head.scores.push_back(score);
    if (!std::isnan(score)) wanted.scores.push_back({layer, kv_head, 6 + q - 10, score});
    if (random.below(3) == 0) continue;
    const Contest contest{.q = q, .newcomer = q - 4, .boundary = q - 7, .newcomer_effective = 1, .evicted = q - 7};
    head.contests.push_back(contest);
    wanted.contests.push_back(contest);
    wanted.contests.back().layer = static_cast<std::int16_t>(layer);
    wanted.contests.back().kv_head = static_cast<std::int16_t>(kv_head);
    head.evictions.push_back({q - 7, q});
    wanted.lifetimes.push_back({layer, kv_head, q - 7, q});
  }
  return head;
}

struct Both {
  StepFacts left, wanted;  // decisions left as they are; by plain loops
};

Both some_facts() {
  Both both;
  Random random(5);
  both.left.n_tokens = both.wanted.n_tokens = kTokens;
  for (StepFacts* facts : {&both.left, &both.wanted}) facts->lifetimes.push_back({1, 2, 0, 4});  // facts from before
  for (int head = 0; head < 6; ++head)
    both.left.decisions.push_back(decisions(head / 3, head % 3, both.wanted, random));
  return both;
}

}  // namespace

TEST_CASE("step facts: decisions become the facts of plain loops, once", "[core][record]") {
  const auto [left, wanted] = some_facts();
  StepFacts facts = left;
  for (int times = 0; times < 2; ++times) {
    spread(facts);
    CHECK(facts.decisions.empty());
    CHECK(protocol::to_json(facts, 7) == protocol::to_json(wanted, 7));
  }
}

TEST_CASE("step facts: a message does not show whether decisions were spread before it was made", "[core][protocol]") {
  const auto [left, wanted] = some_facts();
  REQUIRE(wanted.contests.size() > 80);
  CHECK(protocol::to_json(left, 7) == protocol::to_json(wanted, 7));
  const std::size_t n_unknown = 6 * 30 - wanted.scores.size();  // scores of 16 bytes that no fact has
  CHECK(n_unknown > 10);
  CHECK(protocol::bulk_bytes(left) == protocol::bulk_bytes(wanted) + 16 * n_unknown);
}

TEST_CASE("step facts: who only follows a run knows the lifetimes, tokens, reads and rules of its record",
          "[core][record]") {
  const RunRecord whole = random_run(3);
  RunRecord run;
  run.model = whole.model;  // 2 layers of 3 heads
  RunStarted started;
  started.head = whole;
  started.ids.assign(kTokens, 1);
  for (int i = 0; i < kTokens; ++i) started.pieces.push_back("a");
  begin_run(run, started);
  RunRecord followed = run;

  auto [left, wanted] = some_facts();
  left.logprobs.assign(kTokens, -1.0f);
  left.heads = HeadRules(6, HeadRule{.n_sink = 2, .window = 4, .top_k = 10});
  apply(run, left);
  follow(followed, left);
  StepFacts step{.n_tokens = kTokens + 1, .ids = {3}, .logprobs_from = kTokens};
  step.pieces.push_back("b");
  step.lifetimes = {{0, 1, 36, 40}};
  step.reads = {{.q = 40, .layer = 0, .kv_head = 1, .pages = {0}}};
  apply(run, step);
  follow(followed, step);

  CHECK(followed.evict_at == run.evict_at);
  CHECK(followed.evict_at.row(1, 2)[0] == 4);
  CHECK(followed.evict_at.row(0, 1)[36] == 40);
  CHECK(followed.ids == run.ids);
  CHECK(followed.queries() == kTokens + 1);
  CHECK(followed.reads == run.reads);
  CHECK(followed.heads == run.heads);
  CHECK(run.contests.size() == wanted.contests.size());
  CHECK(followed.contests.empty());
}
