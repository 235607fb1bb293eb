// One budget for all heads, against plain loops over every token of every head.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include "engine/core/lifetime/pooled_top_k.h"

using namespace kvscope;

namespace {

constexpr std::int32_t N = kNever, U = kUndecided;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

struct Outcome {
  LifetimeMap evict_at;
  std::vector<Contest> contests;
};

/// A pool over n_layers of n_kv_heads, each with its own decay.
struct Pool {
  RetentionGeometry geometry;
  std::vector<float> log_gamma;  // empty: the geometry's
  int delay = 0;
  std::int32_t first_query = 0;
  int interval = 0;

  std::vector<RetentionGeometry> of_head(int n_heads) const {
    std::vector<RetentionGeometry> out(static_cast<std::size_t>(n_heads), geometry);
    for (std::size_t head = 0; head < log_gamma.size(); ++head) out[head].log_gamma = log_gamma[head];
    return out;
  }
};

Outcome run(const HeadSeries<float>& scores, const Pool& pool, int n_queries) {
  const int n_heads = scores.n_layers() * scores.n_kv_heads();
  Outcome out{LifetimeMap(scores.n_layers(), scores.n_kv_heads()), {}};
  out.evict_at.resize(scores.row(0, 0).size(), -7);
  pooled_top_k(scores, pool.of_head(n_heads), pool.delay, {pool.interval, pool.first_query}, n_queries, out.evict_at,
               &out.contests);
  return out;
}

/// The definition: before every query all tokens of all heads that may leave are sorted, and those beyond the places go.
Outcome plain_loops(const HeadSeries<float>& scores, const Pool& pool, int n_queries) {
  const RetentionGeometry& g = pool.geometry;
  const int n_kv_heads = scores.n_kv_heads(), n_heads = scores.n_layers() * n_kv_heads;
  const int late = pool.delay == g.window ? 1 : 0;
  Outcome out{LifetimeMap(scores.n_layers(), n_kv_heads), {}};
  out.evict_at.resize(scores.row(0, 0).size(), U);
  const std::vector<RetentionGeometry> of_head = pool.of_head(n_heads);
  for (int head = 0; head < n_heads; ++head) {
    auto& row = out.evict_at.row(head / n_kv_heads, head % n_kv_heads);
    for (int t = 0; t < static_cast<int>(row.size()); ++t) {
      if (t < g.n_sink || t <= n_queries - 1 - g.window) row[static_cast<std::size_t>(t)] = N;
    }
  }
  for (int q = pool.interval > 0 ? 0 : pool.first_query; q < n_queries; ++q) {
    if (pool.interval > 0 && q % pool.interval != 0) continue;
    std::vector<std::tuple<float, int, int>> there;  // (-effective, t, head): ascending is best first
    for (int head = 0; head < n_heads; ++head) {
      const auto& row = out.evict_at.row(head / n_kv_heads, head % n_kv_heads);
      for (int t = g.n_sink; t <= q - g.window - late; ++t) {
        if (row[static_cast<std::size_t>(t)] <= q) continue;
        const float raw = scores.row(head / n_kv_heads, head % n_kv_heads)[static_cast<std::size_t>(t)];
        volatile float decay = static_cast<float>((q - t) / g.decay_stride) *
                               static_cast<float>(of_head[static_cast<std::size_t>(head)].log_gamma);
        there.emplace_back(-((std::isnan(raw) ? -kInf : raw) + decay), t, head);
      }
    }
    std::sort(there.begin(), there.end());
    const std::size_t places = static_cast<std::size_t>(n_heads * (g.top_k - late - std::max(0, pool.interval - 1)));
    std::vector<Contest> met(static_cast<std::size_t>(n_heads));
    for (std::size_t i = there.size(); i-- > places;) {
      const auto [minus, t, head] = there[i];
      out.evict_at.row(head / n_kv_heads, head % n_kv_heads)[static_cast<std::size_t>(t)] = q;
      met[static_cast<std::size_t>(head)] = {.q = q,
                                             .layer = static_cast<std::int16_t>(head / n_kv_heads),
                                             .kv_head = static_cast<std::int16_t>(head % n_kv_heads),
                                             .newcomer = q - g.window - late,
                                             .boundary = t,
                                             .newcomer_effective = places > 0 ? -std::get<0>(there[places - 1]) : kNaN,
                                             .boundary_effective = -minus,
                                             .evicted = t};  // the strongest comes last
    }
    for (const Contest& contest : met) {
      if (contest.evicted >= 0) out.contests.push_back(contest);
    }
  }
  return out;
}

HeadSeries<float> random_scores(int n_layers, int n_kv_heads, int n, std::mt19937& random) {
  HeadSeries<float> scores(n_layers, n_kv_heads);
  std::uniform_int_distribution<int> value(-40, 40);
  for (int layer = 0; layer < n_layers; ++layer) {
    for (int head = 0; head < n_kv_heads; ++head) {
      for (int t = 0; t < n; ++t) {
        const int drawn = value(random);
        scores.row(layer, head).push_back(drawn == 40 ? kNaN : drawn == 39 ? -kInf : drawn == 38 ? kInf : drawn * .25f);
      }
    }
  }
  return scores;
}

bool same(const Contest& a, const Contest& b) {
  const bool lowest = a.newcomer_effective == b.newcomer_effective ||
                      (std::isnan(a.newcomer_effective) && std::isnan(b.newcomer_effective));
  Contest other = b;
  other.newcomer_effective = a.newcomer_effective;
  return lowest && (std::isnan(a.newcomer_effective) ? a.evicted == b.evicted && a.q == b.q : a == other);
}

}  // namespace

TEST_CASE("pooled top-k: plain loops over all heads give the same lifetimes and contests", "[core][lifetime]") {
  const int seed = GENERATE(range(0, 60));
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int n = draw(20, 90), n_layers = draw(1, 3), n_kv_heads = draw(1, 3);
  Pool pool;
  pool.geometry = {.n_sink = draw(0, 4), .window = draw(1, 12), .top_k = draw(1, 12), .decay_stride = draw(1, 5)};
  pool.delay = draw(0, 1) == 1 ? pool.geometry.window : draw(0, pool.geometry.window);
  pool.first_query = draw(0, 2) == 0 ? 0 : draw(0, n - 1);
  if (draw(0, 2) == 0) pool.interval = draw(1, pool.geometry.top_k);
  if (draw(0, 2) == 0) pool.geometry.log_gamma = -0.01 * draw(1, 40);
  if (draw(0, 2) == 0) {
    for (int head = 0; head < n_layers * n_kv_heads; ++head)
      pool.log_gamma.push_back(-0.02f * static_cast<float>(draw(0, 20)));
  }
  CAPTURE(seed);
  const HeadSeries<float> scores = random_scores(n_layers, n_kv_heads, n, random);
  const int n_queries = n - draw(0, 1);
  const Outcome found = run(scores, pool, n_queries), expected = plain_loops(scores, pool, n_queries);
  CHECK(found.evict_at == expected.evict_at);
  REQUIRE(found.contests.size() == expected.contests.size());
  for (std::size_t i = 0; i < found.contests.size(); ++i) REQUIRE(same(found.contests[i], expected.contests[i]));
}

TEST_CASE("pooled top-k: one head alone is the running top-k of that head", "[core][lifetime]") {
  std::mt19937 random(static_cast<unsigned>(GENERATE(range(0, 10))));
  const HeadSeries<float> scores = random_scores(1, 1, 120, random);
  for (const double log_gamma : {0.0, -0.05}) {
    const RetentionGeometry geometry{.n_sink = 2, .window = 9, .top_k = 14, .log_gamma = log_gamma, .decay_stride = 3};
    std::vector<std::int32_t> alone(120);
    running_top_k(scores.row(0, 0), geometry, 120, alone);
    CHECK(run(scores, {geometry, {}, 3, 0}, 120).evict_at.row(0, 0) == alone);
    // A score that comes with the query itself is judged a query later: the head's own contest with a longer window.
    RetentionGeometry longer = geometry;
    ++longer.window, --longer.top_k;
    running_top_k(scores.row(0, 0), longer, 120, alone);
    std::vector<std::int32_t> late = run(scores, {geometry, {}, geometry.window, 0}, 120).evict_at.row(0, 0);
    CHECK(late[120 - 10] == N);  // the last that left the window has not been judged
    late[120 - 10] = U;
    CHECK(late == alone);
  }
}

TEST_CASE("pooled top-k: the heads never hold more than the pool, and one with all the best scores holds all",
          "[core][lifetime]") {
  constexpr int kHeads = 4, kTokens = 80;
  const int interval = GENERATE(0, 1, 4);  // a cut at every query behind the prompt, at every query, at every fourth
  for (const int delay : {0, 8}) {
    CAPTURE(delay, interval);
    const Pool pool{{.n_sink = 3, .window = 8, .top_k = 6}, {}, delay, interval > 0 ? 0 : 20, interval};
    HeadSeries<float> scores(2, 2);
    for (int head = 0; head < kHeads; ++head) {
      for (int t = 0; t < kTokens; ++t)
        scores.row(head / 2, head % 2)
            .push_back(static_cast<float>(head == 2 ? 100 : 0) + static_cast<float>((t * 37) % 64));
    }
    const Outcome out = run(scores, pool, kTokens);
    for (int q = pool.first_query; q < kTokens; ++q) {
      int held = 0, of_best = 0;
      for (int head = 0; head < kHeads; ++head) {
        for (int t = pool.geometry.n_sink; t <= q - pool.geometry.window; ++t) {
          const bool there = visible(q, t, out.evict_at.row(head / 2, head % 2)[static_cast<std::size_t>(t)]);
          held += there;
          of_best += there && head == 2;
        }
      }
      REQUIRE(held <= kHeads * pool.geometry.top_k);
      // The pool of 24 is this head's; a late score lets every other head keep its newest for one query.
      const int free = interval > 1 ? interval - 1 : 0;
      if (q >= 40 && (free == 0 || q % interval == 0))
        REQUIRE(of_best == kHeads * (pool.geometry.top_k - free) - (delay == 8 ? kHeads - 1 : 0));
    }
  }
}

TEST_CASE("pooled top-k: of equal scores the older stay, then the lower layer and head", "[core][lifetime]") {
  HeadSeries<float> scores(2, 2);
  for (int head = 0; head < 4; ++head) scores.row(head / 2, head % 2).assign(12, 1.0f);
  // Window 4, a place a head; the first cut before query 7 judges 0 ... 3 of every head: 12 of 16 leave.
  const Outcome first = run(scores, {{.n_sink = 0, .window = 4, .top_k = 1}, {}, 0, 7}, 8);
  for (int head = 0; head < 4; ++head)
    CHECK(first.evict_at.row(head / 2, head % 2) == std::vector<std::int32_t>{N, 7, 7, 7, U, U, U, U, U, U, U, U});
  // Half a place more than tokens of one age: heads 0 and 1 of layer 0 keep a second one.
  const Outcome next = run(scores, {{.n_sink = 0, .window = 4, .top_k = 2}, {}, 4, 6}, 7);  // late: 4 places
  for (int head = 0; head < 4; ++head)
    CHECK(next.evict_at.row(head / 2, head % 2) == std::vector<std::int32_t>{N, 6, N, U, U, U, U, U, U, U, U, U});
  Pool odd{{.n_sink = 0, .window = 4, .top_k = 1}, {}, 0, 5};
  scores.row(0, 0)[0] = scores.row(0, 1)[0] = 0;  // two of age 5 are weaker, so that two of age 4 find a place
  const Outcome ties = run(scores, odd, 6);
  CHECK(ties.evict_at.row(0, 0)[0] == 5);
  CHECK(ties.evict_at.row(0, 1)[0] == 5);
  CHECK(ties.evict_at.row(1, 0)[0] == N);
  CHECK(ties.evict_at.row(0, 0)[1] == N);
  CHECK(ties.evict_at.row(0, 1)[1] == N);
  CHECK(ties.evict_at.row(1, 0)[1] == 5);
  CHECK(ties.evict_at.row(1, 1)[1] == 5);
}

TEST_CASE("pooled top-k: another decay or a smaller budget half-way judges what is there by it", "[core][lifetime]") {
  std::mt19937 random(5);
  const HeadSeries<float> scores = random_scores(1, 2, 60, random);
  const RetentionGeometry before{.n_sink = 0, .window = 4, .top_k = 12},
      after{.n_sink = 0, .window = 4, .top_k = 5, .log_gamma = -0.3};
  PooledTopK pool({before, before}, 0);
  for (int head = 0; head < 2; ++head) {
    for (int t = 0; t < 60; ++t) pool.tell(head, t, scores.row(0, head)[static_cast<std::size_t>(t)]);
  }
  for (int q = 0; q < 40; ++q) pool.cut(q);
  pool.change({after, after});
  const PooledTopK::Cut cut = pool.cut(40);
  CHECK(cut.left.size() == 2u * (12 - 5) + 2);
  for (const PooledTopK::Leaver& one : cut.left) CHECK(one.effective <= cut.lowest);
  CHECK_THROWS_AS(pool.change({after}), std::invalid_argument);
  CHECK_THROWS_AS(PooledTopK({before}, 5), std::invalid_argument);
  CHECK_THROWS_AS(PooledTopK({before}, 0, 13), std::invalid_argument);  // more kept free than there is
}
