// What a query could not see, against its definition: each head and token looked at alone.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "engine/core/study/measure/unseen_attention.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using test::random_run;

namespace {

/// Random shares that add up to one in each head.
QueryAttention random_attention(const RunRecord& run, int query, std::uint64_t seed) {
  QueryAttention attention{
      .n_layers = run.model.n_layers, .n_kv_heads = run.model.n_kv_heads, .n_tokens = query + 1, .probability = {}};
  std::mt19937_64 random(seed);
  std::exponential_distribution<float> draw(1);
  for (int head = 0; head < attention.n_layers * attention.n_kv_heads; ++head) {
    std::vector<float> row(static_cast<std::size_t>(query) + 1);
    float sum = 0;
    for (float& p : row) sum += p = draw(random);
    for (const float p : row) attention.probability.push_back(p / sum);
  }
  return attention;
}

bool is_evicted(const RunRecord& run, int layer, int head, int t, int query) {
  return run.evict_at.row(layer, head)[static_cast<std::size_t>(t)] <= query;
}

}  // namespace

TEST_CASE("What a query could not see is the sum of its attention on the tokens that each head has evicted") {
  const char* policy = GENERATE("kvpop:budget=64,sinks=4,window=16,decay=0.9999", "streaming:window=30",
                                "kvpop:budget=40,window=16,capacity=pooled,interval=16", "full");
  const RunRecord run = random_run(11, {.policy = policy, .n_layers = 3, .n_kv_heads = 2});
  const HeadScope scope = GENERATE(HeadScope{1, 1}, HeadScope{2, -1}, HeadScope{-1, -1});
  for (const int query : {0, 5, 100, run.n_tokens() - 1}) {
    CAPTURE(policy, scope.layer, scope.kv_head, query);
    const QueryAttention attention = random_attention(run, query, 3);
    const UnseenAttention found = unseen_attention(run, attention, scope);
    std::vector<std::pair<int, int>> heads;
    for (int layer = 0; layer < 3; ++layer) {
      for (int head = 0; head < 2; ++head) {
        double missing = 0;
        for (int t = 0; t <= query; ++t)
          if (is_evicted(run, layer, head, t, query)) missing += attention.row(layer, head)[t];
        CHECK(found.missing[static_cast<std::size_t>(2 * layer + head)] == Approx(missing).margin(1e-7));
        if ((scope.layer < 0 || scope.layer == layer) && (scope.kv_head < 0 || scope.kv_head == head))
          heads.emplace_back(layer, head);
      }
    }
    REQUIRE(found.n_heads == static_cast<int>(heads.size()));
    REQUIRE(found.held.size() == static_cast<std::size_t>(query) + 1);
    double share = 0, whole = 0;
    int n_evicted = 0;
    for (int t = 0; t <= query; ++t) {
      double held = 0, evicted = 0;
      int without = 0;
      for (const auto& [layer, head] : heads) {
        const double p = attention.row(layer, head)[t] / static_cast<double>(heads.size());
        const bool gone = is_evicted(run, layer, head, t, query);
        (gone ? evicted : held) += p, without += gone;
      }
      const auto i = static_cast<std::size_t>(t);
      REQUIRE(found.held[i] == Approx(held).margin(1e-7));
      REQUIRE(found.evicted[i] == Approx(evicted).margin(1e-7));
      REQUIRE(found.heads_without[i] == without);
      share += evicted, whole += held + evicted, n_evicted += without > 0;
    }
    CHECK(found.share() == Approx(share).margin(1e-6));
    CHECK(whole == Approx(1).epsilon(1e-5));
    CHECK(found.n_evicted() == n_evicted);
    if (query > 90 && policy != std::string("full")) CHECK(share > 0);
  }
}

TEST_CASE("The tokens that a query misses most are in the order of their attention") {
  const RunRecord run = random_run(11);
  const int query = run.n_tokens() - 1;
  const UnseenAttention found = unseen_attention(run, random_attention(run, query, 5), {1, 2});
  std::vector<std::pair<float, int>> expected;
  for (int t = 0; t <= query; ++t)
    if (is_evicted(run, 1, 2, t, query)) expected.emplace_back(-found.evicted[static_cast<std::size_t>(t)], t);
  std::ranges::sort(expected);
  REQUIRE(expected.size() > 20);
  const std::vector<std::int32_t> ten = most_missing(found, 10);
  REQUIRE(ten.size() == 10);
  for (std::size_t i = 0; i < ten.size(); ++i) CHECK(ten[i] == expected[i].second);
  CHECK(most_missing(found, 100000).size() == expected.size());
  CHECK(most_missing(unseen_attention(run, random_attention(run, 3, 5), {1, 2}), 10).empty());
}

TEST_CASE("A layer that attends to its window by design counts for nothing in what a query could not see") {
  RunRecord run = random_run(11);
  test::set_heads(run, &HeadRule::locality,
                  std::vector<Locality>{Locality::model, Locality::model, Locality::model, Locality::global,
                                        Locality::global, Locality::global});
  const QueryAttention attention = random_attention(run, 150, 5);
  const UnseenAttention all = unseen_attention(run, attention, {}), layer = unseen_attention(run, attention, {1, -1});
  CHECK(all.n_heads == 3);
  CHECK(all.held == layer.held);
  CHECK(all.evicted == layer.evicted);
  for (std::size_t head = 0; head < 6; ++head) CHECK(std::isnan(all.missing[head]) == (head < 3));
  CHECK(unseen_attention(run, attention, {0, 1}).n_heads == 0);
}
