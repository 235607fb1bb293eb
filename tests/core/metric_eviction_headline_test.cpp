// The headline of a run against its definition: one verdict asked for after the other, and plain sums.

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "engine/core/study/measure/eviction_headline.h"
#include "engine/core/study/measure/oracle.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using test::random_run;

namespace {

/// By eviction_verdict(), which looks at one token alone.
bool is_wrong(const RunRecord& run, int layer, int head, int t) {
  return eviction_verdict(run, layer, head, t).verdict == EvictionVerdict::wrong;
}

double mass(const RunRecord& run, int layer, int head, int t) {
  const auto& row = run.future_mass.row(layer, head);
  const float value = static_cast<std::size_t>(t) < row.size() ? row[static_cast<std::size_t>(t)] : NAN;
  return std::isnan(value) ? 0 : static_cast<double>(value);
}

void check_worst(const RunRecord& run, const EvictionHeadline::Head& worst) {
  std::map<std::pair<int, int>, std::pair<int, double>> heads;  // wrong ones, and what they lost
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      auto& [n, lost] = heads[{layer, head}];
      for (int t = 0; t < run.n_tokens(); ++t)
        if (is_wrong(run, layer, head, t)) ++n, lost += mass(run, layer, head, t);
    }
  }
  const auto found = heads.at({worst.layer, worst.kv_head});
  CHECK(found.first == worst.wrong);
  for (const auto& [head, value] : heads) CHECK(value <= found);
}

void check_costliest(const RunRecord& run, const EvictionHeadline::Token& costliest) {
  for (int t = 0; t < run.n_tokens(); ++t) {
    double sum = 0, most = -1;
    int n = 0;
    for (int layer = 0; layer < run.model.n_layers; ++layer) {
      for (int head = 0; head < run.model.n_kv_heads; ++head) {
        if (!is_wrong(run, layer, head, t)) continue;
        ++n, sum += mass(run, layer, head, t), most = std::max(most, mass(run, layer, head, t));
      }
    }
    CHECK(sum <= costliest.mass);
    if (t != costliest.t) continue;
    CHECK(sum == costliest.mass);
    CHECK(n == costliest.n_heads);
    CHECK(is_wrong(run, costliest.layer, costliest.kv_head, t));
    CHECK(mass(run, costliest.layer, costliest.kv_head, t) == most);
  }
}

}  // namespace

TEST_CASE("The headline's share, worst head and costliest lost token are those of the verdicts, one by one") {
  for (const char* policy : {"kvpop:budget=64,sinks=4,window=16,decay=0.9999", "streaming:window=30", "kvpop:keep=60%",
                             "kvpop:budget=40,window=16,capacity=pooled,interval=16"}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(policy, seed);
      const RunRecord run = random_run(seed, {.policy = policy});
      const auto found = eviction_headline(run);
      REQUIRE(found);
      std::int64_t judged = 0, wrong = 0;
      for (int layer = 0; layer < run.model.n_layers; ++layer) {
        for (int head = 0; head < run.model.n_kv_heads; ++head) {
          for (int t = 0; t < run.n_tokens(); ++t) {
            judged += eviction_verdict(run, layer, head, t).verdict != EvictionVerdict::unknown;
            wrong += is_wrong(run, layer, head, t);
          }
        }
      }
      CHECK(found->judged == judged);
      CHECK(found->wrong == wrong);
      REQUIRE(wrong > 0);
      REQUIRE((found->worst && found->costliest));
      check_worst(run, *found->worst);
      check_costliest(run, *found->costliest);
    }
  }
}

TEST_CASE("A run without an oracle, or without an eviction to judge, has no headline") {
  CHECK_FALSE(eviction_headline(random_run(1, {.oracle = false})));
  CHECK_FALSE(eviction_headline(random_run(1, {.policy = "full"})));
  CHECK_FALSE(eviction_headline(RunRecord{}));
}
