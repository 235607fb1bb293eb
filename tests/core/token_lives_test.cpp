// The life of each token in a head, against its definition: each query looked at alone.

#include "engine/core/study/heads/token_lives.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/study/measure/retention_metrics.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using test::random_run;

namespace {

constexpr const char* kPolicies[] = {"kvpop:budget=64,sinks=4,window=16,decay=0.9999", "streaming:sinks=3,window=30",
                                     "kvpop:budget=40,window=16,capacity=pooled,interval=16", "full"};

/// Counted query by query.
TokenLife life_of(const RunRecord& run, int layer, int head, int t) {
  const RetentionGeometry geometry = run.geometry(layer, head);
  const std::int32_t evict_at = run.evict_at.row(layer, head)[static_cast<std::size_t>(t)];
  TokenLife life{.t = t, .left_window = t, .gone = t, .sink = t < geometry.n_sink};
  for (int q = t; q < run.queries() && visible(q, t, evict_at); ++q) {
    life.gone = q + 1;
    if (life.sink || q - geometry.window < t) life.left_window = q + 1;
  }
  life.evicted = life.gone < run.queries();
  if (!life.evicted || run.status == RunStatus::running || run.future_mass.empty()) return life;
  life.verdict = eviction_verdict(run, layer, head, t).verdict;
  const float mass = run.future_mass.row(layer, head)[static_cast<std::size_t>(t)];
  life.cost = std::isnan(mass) ? 0 : static_cast<double>(mass);
  return life;
}

void check_same(const TokenLife& a, const TokenLife& b) {
  CAPTURE(b.t);
  CHECK((a.t == b.t && a.left_window == b.left_window && a.gone == b.gone));
  CHECK((a.sink == b.sink && a.evicted == b.evicted && a.verdict == b.verdict && a.cost == b.cost));
}

}  // namespace

TEST_CASE("The life of each token is what a loop over the queries finds, in each order") {
  for (const char* policy : kPolicies) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const RunRecord run = random_run(seed, {.policy = policy, .oracle = seed != 3, .last_token_fed = seed != 2});
      for (const auto& [first, last] : {std::pair{0, 500}, {40, 90}, {7, 7}}) {
        for (const LifeOrder order : {LifeOrder::position, LifeOrder::cost, LifeOrder::life}) {
          CAPTURE(policy, seed, first, last, static_cast<int>(order));
          const std::vector<TokenLife> lives = token_lives(run, 1, 2, first, last, head_verdicts(run, 1, 2), order);
          std::vector<TokenLife> expected;
          for (int t = first; t <= std::min(last, run.queries() - 1); ++t) expected.push_back(life_of(run, 1, 2, t));
          if (order == LifeOrder::cost)
            std::ranges::stable_sort(expected, [](const auto& a, const auto& b) { return a.cost > b.cost; });
          if (order == LifeOrder::life)
            std::ranges::stable_sort(expected, [](const auto& a, const auto& b) { return a.length() > b.length(); });
          REQUIRE(lives.size() == expected.size());
          int evicted = 0, wrong = 0, right = 0;
          double cost = 0;
          for (std::size_t i = 0; i < lives.size(); ++i) {
            check_same(lives[i], expected[i]);
            evicted += expected[i].evicted, cost += expected[i].cost;
            wrong += expected[i].verdict == EvictionVerdict::wrong;
            right += expected[i].verdict == EvictionVerdict::right;
          }
          const LifeCounts counts = count_lives(lives);
          CHECK((counts.tokens == static_cast<int>(lives.size()) && counts.evicted == evicted));
          CHECK((counts.wrong == wrong && counts.right == right && counts.cost == Approx(cost)));
        }
      }
    }
  }
}

TEST_CASE("The verdicts of one head are its row of those of all") {
  for (const char* policy : kPolicies) {
    const RunRecord run = random_run(5, {.policy = policy});
    const auto all = eviction_verdicts(run);
    for (int head = 0; head < 6; ++head) {
      const auto one = eviction_verdicts(run, head / 3, head % 3);
      const auto& row = all[static_cast<std::size_t>(head)];
      CAPTURE(policy, head);
      REQUIRE(one.size() == row.size());
      for (std::size_t t = 0; t < one.size(); ++t)
        CHECK((one[t].verdict == row[t].verdict && one[t].by_quarter == row[t].by_quarter));
    }
  }
  CHECK(eviction_verdicts(random_run(5, {.oracle = false}), 0, 0).empty());
}

TEST_CASE("A mass that was not recorded is no cost") {
  RunRecord run = random_run(1, {.policy = kPolicies[1]});
  run.future_mass.row(1, 2)[50] = NAN;
  const auto lives = token_lives(run, 1, 2, 50, 51, {}, LifeOrder::cost);
  REQUIRE(lives.size() == 2);
  CHECK((lives[0].t == 51 && lives[0].cost > 0));
  CHECK((lives[1].t == 50 && lives[1].evicted && lives[1].cost == 0));
}

TEST_CASE("A run that goes on has lives up to its last query, without verdicts or costs") {
  RunRecord run = random_run(2);
  run.status = RunStatus::running, run.n_queries = 90;
  CHECK_FALSE(has_cost(run));
  const auto verdicts = head_verdicts(run, 0, 1);
  CHECK(verdicts.empty());
  const auto lives = token_lives(run, 0, 1, 0, 500, verdicts, LifeOrder::position);
  REQUIRE(lives.size() == 90);
  for (const TokenLife& life : lives) check_same(life, life_of(run, 0, 1, life.t));
  CHECK(token_lives(run, 0, 1, 95, 99, verdicts, LifeOrder::life).empty());
  CHECK(token_lives(run, 0, 1, 9, 8, verdicts, LifeOrder::life).empty());
}

TEST_CASE("The reason of an eviction is that of the explanation, without the oracle's part") {
  for (const char* policy : kPolicies) {
    const RunRecord run = random_run(3, {.policy = policy});
    for (const TokenLife& life : token_lives(run, 1, 1, 0, 500, {}, LifeOrder::position)) {
      if (!life.evicted) continue;
      const auto contest = std::ranges::find_if(
          run.contests, [&](const Contest& c) { return c.layer == 1 && c.kv_head == 1 && c.q == life.gone; });
      const std::string why = eviction_reason(run, 1, 1, life.t, contest == run.contests.end() ? nullptr : &*contest);
      CHECK_FALSE(why.empty());
      CHECK_THAT(explain_token(run, 1, 1, life.t, run.queries() - 1),
                 Catch::Contains("at query " + std::to_string(life.gone) + why));
    }
  }
}
