// What one run has lost at a query and another one still has, against its definition: each head and token looked at alone.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "engine/core/study/measure/lost_between.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using test::random_run;

namespace {

constexpr const char* kPolicies[] = {"kvpop:budget=64,sinks=4,window=16,decay=0.9999", "streaming:window=30",
                                     "kvpop:keep=60%", "kvpop:budget=40,window=16,capacity=pooled,interval=16", "full"};

std::vector<LostToken> by_definition(const RunRecord& loser, const RunRecord& keeper, const RunRecord* teacher, int q) {
  std::vector<LostToken> tokens;
  for (int t = 0; t <= q; ++t) {
    LostToken token{.t = t};
    double greatest = -1;
    for (int layer = 0; layer < loser.model.n_layers; ++layer) {
      for (int head = 0; head < loser.model.n_kv_heads; ++head) {
        const auto i = static_cast<std::size_t>(t);
        if (loser.evict_at.row(layer, head)[i] > q || keeper.evict_at.row(layer, head)[i] <= q) continue;
        if (loser.is_local_by_model(layer, head) || keeper.is_local_by_model(layer, head)) continue;
        const float value = teacher == nullptr ? 0 : teacher->future_mass.row(layer, head)[i];
        const double mass = std::isnan(value) ? 0 : value;
        ++token.n_heads, token.mass += mass;
        if (mass > greatest) greatest = mass, token.layer = layer, token.kv_head = head;
      }
    }
    if (token.n_heads > 0) tokens.push_back(token);
  }
  std::ranges::stable_sort(tokens, [](const LostToken& x, const LostToken& y) {
    return x.mass != y.mass ? x.mass > y.mass : x.n_heads > y.n_heads;
  });
  return tokens;
}

void check(const RunRecord& loser, const RunRecord& keeper, const RunRecord* teacher, int q) {
  const LostBetween lost = lost_between(loser, keeper, q, 12);
  const std::vector<LostToken> all = by_definition(loser, keeper, teacher, q);
  CHECK(lost.n_tokens == static_cast<std::int32_t>(all.size()));
  std::int64_t pairs = 0;
  for (const LostToken& token : all) pairs += token.n_heads;
  CHECK(lost.n_pairs == pairs);
  REQUIRE(lost.tokens.size() == std::min<std::size_t>(12, all.size()));
  for (std::size_t i = 0; i < lost.tokens.size(); ++i) CHECK(lost.tokens[i] == all[i]);
  CHECK((lost.mass_of == MassOf::none) == (teacher == nullptr));
  if (teacher != nullptr) CHECK((lost.mass_of == MassOf::loser) == (teacher == &loser));
}

}  // namespace

TEST_CASE("What a run has lost and another one has is what its definition gives, at every query and both ways round") {
  const char* of_a = GENERATE(from_range(std::begin(kPolicies), std::end(kPolicies)));
  const char* of_b = GENERATE(from_range(std::begin(kPolicies), std::end(kPolicies)));
  CAPTURE(of_a, of_b);
  const RunRecord a = random_run(3, {.policy = of_a}), b = random_run(3, {.policy = of_b});
  for (const int q : {0, 3, 40, 119, 150, 179}) {
    check(a, b, &a, q);
    check(b, a, &b, q);
  }
  CHECK(lost_between(a, a, 150, 12).n_pairs == 0);
  CHECK(lost_between(a, b, -1, 12).n_tokens == 0);
  CHECK(lost_between(a, b, 150, 12).n_heads == 6);
}

TEST_CASE("Without the loser's oracle the keeper's ranks the tokens, and without both the number of heads does") {
  const RunRecord with = random_run(3, {.policy = "streaming:window=30"});
  const RunRecord without = random_run(3, {.oracle = false}), full = random_run(3, {.policy = "full", .oracle = false});
  check(without, with, &with, 150);
  check(with, without, &with, 150);
  check(without, full, nullptr, 150);
  RunRecord running = random_run(3);
  running.status = RunStatus::running;  // its masses are not complete
  check(running, full, nullptr, 150);
}

TEST_CASE("Heads that the model itself makes local lose nothing that counts") {
  RunRecord a = random_run(3);
  const RunRecord full = random_run(3, {.policy = "full"});
  for (std::size_t i = 0; i < 3; ++i) test::own_rules(a)[i].locality = Locality::model;
  check(a, full, &a, 150);
  CHECK(lost_between(a, full, 150, 12).n_heads == 3);
}
