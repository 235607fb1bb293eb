// The methods that go by attention, against loops written from their definitions. Layer 0 is exact whatever left; the
// others while a dense prompt lasts.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/model/weights.h"
#include "tests/engine/gated_model.h"
#include "tests/engine/plain_rules.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using test::attention;
using test::drop_least;
using test::Evictions;
using test::Expected;
using test::keep_best;
using test::mean_attention;
using test::PlainLayer;
using test::range;
using test::Snap;
using test::snap_scores;

constexpr int kTokens = 90, kPrompt = 60;

const engine::LoadedModel& model() {
  static const engine::LoadedModel loaded = test::gated_model({test::random_gate(GateKind::wg_kv)});
  return loaded;
}
const std::vector<std::int32_t>& ids() {
  static const std::vector<std::int32_t> all = test::some_ids(kTokens, 512, 21);
  return all;
}
const std::vector<PlainLayer>& layers() {
  static const std::vector<PlainLayer> all = test::dense_layers(model(), ids());
  return all;
}

Evictions evictions(const RunRecord& run, int layer, int head, int until = kTokens) {
  return test::evictions(run, layer, head, until);
}

/// Expected Attention when n tokens have passed, a number for each of `held`.
std::vector<double> expected_scores(const PlainLayer& layer, int kv_head, const std::vector<int>& held, int n,
                                    int n_sink, int n_future, const Expected& how) {
  const at::Tensor inv_freq = model().weights().layers[0].inv_freq.to(at::kDouble).contiguous();
  const double* first = inv_freq.data_ptr<double>();
  return test::expected_scores(layer, {first, first + inv_freq.numel()}, kv_head, held, n_sink, n, n_sink, n_future,
                               how);
}

/// Who leaves next of the tokens before `end`, and the least worth of the others; NaN if there are none.
struct Departure {
  int evict_at, newcomer, evicted;
  double least, next;
};

Departure departure(const std::vector<int>& held, const std::vector<double>& worth, int end, int query) {
  std::vector<std::pair<double, int>> free;  // of equals the later leaves
  for (std::size_t i = 0; i < held.size() && held[i] < end; ++i) free.emplace_back(worth[i], -held[i]);
  std::sort(free.begin(), free.end());
  return {query + 1, query, -free[0].second, free[0].first, free.size() > 1 ? free[1].first : NAN};
}

/// What a token is worth after a query: the attention of that query, the sum over all, or their mean.
enum class Worth { last, sum, mean };

/// TOVA and H2O of a KV head, query by query. The first `dense` queries see everything and evict after the last of
/// them.
Evictions step_by_step(const PlainLayer& layer, int kv_head, Worth by, int dense, int budget, int protect, int n,
                       std::vector<Departure>* log = nullptr) {
  const bool tova = by == Worth::last;
  const int first = tova ? 0 : kv_head * layer.group_size(), n_heads = tova ? layer.q.n_heads : layer.group_size();
  std::vector<int> held;
  std::map<int, double> sum;
  std::vector<double> worth;
  Evictions out;
  for (int q = 0; q < n; ++q) {
    held.push_back(q);
    worth.push_back(0);
    const std::vector<double> seen = mean_attention(layer, q, first, n_heads, held);
    for (std::size_t i = 0; i < held.size(); ++i) {
      const double all = sum[held[i]] += seen[i];
      worth[i] = tova ? seen[i] : by == Worth::sum ? all : all / (q - held[i] + 1);
    }
    if (q + 1 < dense) continue;
    while (static_cast<int>(held.size()) > budget) {
      if (log != nullptr) log->push_back(departure(held, worth, q + 1 - protect, q));
      drop_least(held, worth, q + 1 - protect, q + 1, out);
    }
  }
  return out;
}

TEST_CASE("rules: TOVA drops what the last query attended to least, in the mean over all heads", "[engine][rules]") {
  const int protect = GENERATE(0, 3);
  const bool dense = GENERATE(true, false);
  CAPTURE(protect, dense);
  const std::string policy = "tova:budget=24,protect=" + std::to_string(protect) + (dense ? "" : ",prefill=sparse");
  const RunRecord run = test::feed(model(), ids(), kPrompt, policy).record;
  for (int head = 0; head < 2; ++head) {
    // Who leaves by the last query is told with the next.
    const Evictions expected =
        step_by_step(layers()[0], head, Worth::last, dense ? kPrompt : 0, 24, protect, kTokens - 1);
    CHECK(evictions(run, 0, head) == expected);
    CHECK(expected.size() == static_cast<std::size_t>(kTokens - 1 - 24));
    if (dense)
      CHECK(evictions(run, 1, head, kPrompt) ==
            step_by_step(layers()[1], head, Worth::last, kPrompt, 24, protect, kPrompt));
  }
}

TEST_CASE("rules: H2O drops the least attention over all queries so far, its sum or its mean, outside the window",
          "[engine][rules]") {
  const bool dense = GENERATE(true, false), mean = GENERATE(false, true);
  const int chunk = GENERATE(as<int>{}, kPrompt, 16);  // of the prompt
  CAPTURE(dense, mean, chunk);
  const Worth by = mean ? Worth::mean : Worth::sum;
  const std::string policy =
      std::string("h2o:budget=24,window=8") + (mean ? ",normalise=mean" : "") + (dense ? "" : ",prefill=sparse");
  const RunRecord run = test::feed(model(), ids(), kPrompt, policy, {.chunk = chunk}).record;
  for (int head = 0; head < 2; ++head) {
    CHECK(evictions(run, 0, head) == step_by_step(layers()[0], head, by, dense ? kPrompt : 0, 24, 8, kTokens - 1));
    if (dense) CHECK(evictions(run, 1, head, kPrompt) == step_by_step(layers()[1], head, by, kPrompt, 24, 8, kPrompt));
  }
  CHECK(evictions(run, 0, 0) != evictions(run, 0, 1));  // heads go their own ways, unlike TOVA's
}

// W10: the view draws these numbers, and the sentence of a token quotes them.
TEST_CASE("rules: TOVA's and H2O's contests name who came, who left with its attention, and the next least",
          "[engine][rules]") {
  const bool tova = GENERATE(true, false), dense = GENERATE(true, false);
  CAPTURE(tova, dense);
  const std::string policy =
      std::string(tova ? "tova:budget=24,protect=3" : "h2o:budget=24,window=8") + (dense ? "" : ",prefill=sparse");
  const RunRecord run = test::feed(model(), ids(), kPrompt, policy).record;
  for (int head = 0; head < 2; ++head) {
    std::vector<Departure> expected;
    step_by_step(layers()[0], head, tova ? Worth::last : Worth::sum, dense ? kPrompt : 0, 24, tova ? 3 : 8, kTokens - 1,
                 &expected);
    // At the end of a dense prompt many leave at once, without a contest each.
    std::erase_if(expected, [&](const Departure& one) { return dense && one.evict_at == kPrompt; });
    std::vector<Contest> contests;
    for (const Contest& contest : run.contests) {
      if (contest.layer == 0 && contest.kv_head == head) contests.push_back(contest);
    }
    CAPTURE(head);
    REQUIRE(contests.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(contests[i].q == expected[i].evict_at);
      CHECK(contests[i].newcomer == expected[i].newcomer);
      CHECK(contests[i].boundary == expected[i].evicted);
      CHECK(contests[i].evicted == expected[i].evicted);
      CHECK(contests[i].boundary_effective == Approx(expected[i].least).epsilon(1e-4));
      CHECK(contests[i].newcomer_effective == Approx(expected[i].next).epsilon(1e-4));
    }
  }
}

TEST_CASE("rules: SnapKV keeps what the last queries of the prompt attended to, pooled", "[engine][rules]") {
  // Mean over the group and pooling by maximum: the mean of maxima, not the maximum of means.
  const Snap how = {GENERATE(3, 5), GENERATE(false, true), GENERATE(false, true)};
  CAPTURE(how.kernel, how.max_pooling, how.group_max);
  const std::string policy = "snapkv:budget=24,window=8,kernel=" + std::to_string(how.kernel) +
                             ",pooling=" + (how.max_pooling ? "max" : "mean") +
                             ",group=" + (how.group_max ? "max" : "mean");
  const RunRecord run = test::feed(model(), ids(), kPrompt, policy).record;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      CAPTURE(layer, head);
      std::vector<int> held = range(kPrompt);
      Evictions expected;
      std::vector<double> score;
      if (how.max_pooling && !how.group_max) {
        // Each head is pooled for itself before the mean.
        PlainLayer one = layers()[static_cast<std::size_t>(layer)];
        score.assign(held.size(), 0);
        for (int g = 0; g < one.group_size(); ++g) {
          PlainLayer alone = one;  // a layer whose group is this head alone
          alone.q.n_heads = alone.k.n_heads = 1;
          alone.q.values.clear();
          alone.k.values.clear();
          for (int t = 0; t < kPrompt; ++t) {
            const double *q = one.q.at(t, head * one.group_size() + g), *k = one.k.at(t, head);
            alone.q.values.insert(alone.q.values.end(), q, q + one.q.dim);
            alone.k.values.insert(alone.k.values.end(), k, k + one.k.dim);
          }
          const std::vector<double> of_head = snap_scores(alone, 0, held, kPrompt, 8, how);
          for (std::size_t i = 0; i < held.size(); ++i) score[i] += of_head[i] / one.group_size();
        }
      } else {
        score = snap_scores(layers()[static_cast<std::size_t>(layer)], head, held, kPrompt, 8, how);
      }
      keep_best(held, score, 24, 0, kPrompt - 8, kPrompt, expected);
      CHECK(evictions(run, layer, head) == expected);
      CHECK(expected.size() == static_cast<std::size_t>(kPrompt - 24));
    }
  }
}

TEST_CASE("rules: a full pool makes every head drop its share of least observed attention", "[engine][rules]") {
  // No gate is below 0: every token is admitted, and all heads hold as many. 44 long-range tokens after the prompt;
  // a pool of 40 drops 11 once, one of 20 drops 11, 8 and 6; then each step adds one until the next is full.
  const int pool = GENERATE(40, 20);
  CAPTURE(pool);
  constexpr int kWindow = 16, kObserve = 8;
  const RunRecord run = test::feed(model(), ids(), kPrompt,
                                   "wg-kv:threshold=0,window=16,drop=0.25,observe=8,pool=" + std::to_string(pool))
                            .record;
  const auto drop_from = [&](const PlainLayer& layer, int head, int n, std::vector<int>& held, Evictions& out) {
    while (static_cast<int>(held.size()) - kWindow > pool) {
      const int leaves = (static_cast<int>(held.size()) - kWindow) / 4;
      const std::vector<double> score = snap_scores(layer, head, held, n, kObserve, {5, true, true});
      keep_best(held, score, static_cast<int>(held.size()) - leaves, 0, n - kWindow, n, out);
    }
  };
  for (int head = 0; head < 2; ++head) {
    CAPTURE(head);
    std::vector<int> held = range(kPrompt), held_1 = held;
    Evictions expected, expected_1;
    drop_from(layers()[1], head, kPrompt, held_1, expected_1);
    CHECK(evictions(run, 1, head, kPrompt) == expected_1);
    CHECK(expected_1.size() == (pool == 40 ? 11u : 25u));
    for (int n = kPrompt; n <= kTokens; ++n) {
      if (n > kPrompt) held.push_back(n - 1);
      drop_from(layers()[0], head, n, held, expected);
    }
    CHECK(evictions(run, 0, head) == expected);
    CHECK(expected.size() > expected_1.size());  // the answer filled the pool again
    std::set<std::int32_t> cuts;
    for (const auto& [token, evict_at] : expected)
      if (evict_at < run.queries()) cuts.insert(evict_at);
    CHECK(count_evictions(run).overflows == static_cast<int>(cuts.size()));
  }
}

TEST_CASE("rules: a gate without a pool drops tokens as they leave the window alone, so it never overflows",
          "[engine][rules]") {
  const RunRecord run = test::feed(model(), ids(), kPrompt, "wg-kv:threshold=0.999,window=16").record;
  CHECK(count_evictions(run).queries > 0);
  CHECK(count_evictions(run).overflows == 0);
}

TEST_CASE("rules: a pool observes no more queries than the window protects", "[engine][rules]") {
  const std::string policy = "wg-kv:threshold=0,window=16,drop=0.25,pool=40,observe=";
  const RunRecord few = test::feed(model(), ids(), kPrompt, policy + "16").record,
                  many = test::feed(model(), ids(), kPrompt, policy + "256").record;
  CHECK(few.evict_at == many.evict_at);
  std::vector<int> held = range(kPrompt);
  Evictions expected;
  keep_best(held, snap_scores(layers()[0], 0, held, kPrompt, 16, {5, true, true}), kPrompt - 11, 0, kPrompt - 16,
            kPrompt, expected);
  CHECK(evictions(many, 0, 0, kPrompt) == expected);
}

TEST_CASE("rules: Expected Attention keeps by what queries to come are expected to attend to", "[engine][rules]") {
  const Expected how = GENERATE(Expected{true, true, 0}, Expected{false, true, 0}, Expected{true, false, 0},
                                Expected{false, false, 0}, Expected{true, true, 0.02});
  const int n_future = GENERATE(1, 32, 512);
  CAPTURE(how.covariance, how.values, how.epsilon, n_future);
  const std::string policy = "expected-attention:budget=24,interval=0,future=" + std::to_string(n_future) +
                             ",covariance=" + std::to_string(how.covariance) + ",values=" + std::to_string(how.values) +
                             ",epsilon=" + std::to_string(how.epsilon);
  const RunRecord run = test::feed(model(), ids(), kPrompt, policy).record;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      CAPTURE(layer, head);
      std::vector<int> held = range(kPrompt);
      Evictions expected;
      const PlainLayer& plain = layers()[static_cast<std::size_t>(layer)];
      keep_best(held, expected_scores(plain, head, held, kPrompt, 4, n_future, how), 24, 4, kPrompt, kPrompt, expected);
      CHECK(evictions(run, layer, head) == expected);
      CHECK(expected.size() == static_cast<std::size_t>(kPrompt - 24));
    }
  }
}

TEST_CASE("rules: Expected Attention leaves the queries of the sinks out at an interval too", "[engine][rules]") {
  const RunRecord run =
      test::feed(model(), ids(), kPrompt, "expected-attention:budget=40,sinks=16,interval=16,future=32").record;
  for (int head = 0; head < 2; ++head) {
    std::vector<int> held = range(kPrompt);
    Evictions expected;
    for (const int n : {kPrompt, kPrompt + 16}) {
      for (int t = kPrompt; t < n; ++t) held.push_back(t);
      const auto scores = expected_scores(layers()[0], head, held, n, 16, 32, {true, true, 0});
      keep_best(held, scores, 40, 16, n, n, expected);
    }
    CHECK(evictions(run, 0, head, kPrompt + 16) == expected);
  }
}

TEST_CASE("rules: Quest reads the newest page and those of greatest bound", "[engine][rules]") {
  const auto [policy, n_pages] = GENERATE(std::pair("quest:read=32,dense=0", 2), std::pair("quest:read=48,dense=0", 3));
  CAPTURE(policy);
  const PlainLayer& layer = layers()[0];
  engine::Generation run(model(), test::request({ids().begin(), ids().begin() + kPrompt}, policy, kTokens - kPrompt));
  run.prefill();
  std::set<std::vector<std::int32_t>> chosen;
  for (int q = kPrompt; q < kTokens; ++q) {
    const std::vector<PageRead> reads = run.step_forced(ids()[static_cast<std::size_t>(q)]).reads;
    std::vector<PageRead> expected;
    for (int head = 0; head < 2; ++head) {
      std::vector<double> bound;  // by page
      for (int first = 0; first <= q; first += 16) {
        const int end = std::min(first + 16, q + 1);
        double best = -INFINITY;
        for (int g = 2 * head; g < 2 * head + 2; ++g) {
          double sum = 0, product = -INFINITY;
          for (int c = 0; c < layer.q.dim; ++c) {
            double most = -INFINITY;
            for (int t = first; t < end; ++t) most = std::max(most, layer.q.at(q, g)[c] * layer.k.at(t, head)[c]);
            sum += most;
          }
          for (int t = first; t < end; ++t)
            product = std::max(product, test::dot(layer.q.at(q, g), layer.k.at(t, head), layer.q.dim));
          REQUIRE(product <= sum);  // no key of a page can matter more than its bound
          best = std::max(best, sum);
        }
        bound.push_back(end == q + 1 ? INFINITY : best);
      }
      std::vector<int> pages = test::greatest(bound, n_pages);
      std::sort(pages.begin(), pages.end());
      expected.push_back({q, 0, static_cast<std::int16_t>(head), {pages.begin(), pages.end()}});
      chosen.insert({pages.begin(), pages.end()});
    }
    REQUIRE(reads.size() >= expected.size());
    REQUIRE(std::equal(expected.begin(), expected.end(), reads.begin()));
  }
  CHECK(chosen.size() > 3);  // it did choose
}

}  // namespace
}  // namespace kvscope
