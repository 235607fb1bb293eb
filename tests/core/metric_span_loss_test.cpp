// Who lost a span of tokens, against its definition: each head, token and query looked at alone.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/study/heads/span_loss.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using test::random_run;

namespace {

constexpr const char* kPolicies[] = {"kvpop:budget=64,sinks=4,window=16,decay=0.9999", "streaming:window=30",
                                     "kvpop:keep=60%", "kvpop:budget=40,window=16,capacity=pooled,interval=16", "full"};

bool has(const RunRecord& run, int layer, int head, int t, int q) {
  return visible(q, t, run.evict_at.row(layer, head)[static_cast<std::size_t>(t)]);
}

/// The first query after the token that cannot see it; -1 if every one can.
int left_at(const RunRecord& run, int layer, int head, int t) {
  for (int q = t; q < run.queries(); ++q)
    if (!has(run, layer, head, t, q)) return q;
  return -1;
}

double mass(const RunRecord& run, int layer, int head, int t) {
  if (run.future_mass.empty()) return 0;
  const float value = run.future_mass.row(layer, head)[static_cast<std::size_t>(t)];
  return std::isnan(value) ? 0 : static_cast<double>(value);
}

int held(const RunRecord& run, const HeadSpan& head, int first, int last, int q) {
  int n = 0;
  for (int t = first; t <= std::min(last, q); ++t) n += has(run, head.layer, head.kv_head, t, q);
  return n;
}

void check_head(const RunRecord& run, const HeadSpan& head, const SpanLoss& loss) {
  int n = 0, wrong = 0, judged = 0, last_left = -1;
  double lost = 0;
  std::int64_t token_queries = 0;
  for (int t = loss.first; t <= loss.last; ++t) {
    const int q = left_at(run, head.layer, head.kv_head, t);
    if (q < 0) continue;
    const EvictionVerdict verdict = eviction_verdict(run, head.layer, head.kv_head, t).verdict;
    const auto found = std::ranges::find(head.evictions, t, &Eviction::t);
    REQUIRE(found != head.evictions.end());
    CHECK(found->q == q);
    CHECK(found->mass == mass(run, head.layer, head.kv_head, t));
    CHECK(found->verdict == verdict);
    ++n, lost += found->mass, last_left = std::max(last_left, q);
    wrong += verdict == EvictionVerdict::wrong, judged += verdict != EvictionVerdict::unknown;
    for (int later = q; later < run.queries(); ++later) ++token_queries;
  }
  CHECK(head.evictions.size() == static_cast<std::size_t>(n));
  CHECK(std::ranges::is_sorted(head.evictions, {}, &Eviction::q));
  CHECK(head.gone_at == (n == loss.n_tokens() ? last_left : kNever));
  CHECK(head.mass_lost == Approx(lost));
  CHECK((head.wrong == wrong && head.judged == judged));
  CHECK(head.token_queries == token_queries);
  CHECK(head.held_at_answer == held(run, head, loss.first, loss.last, loss.answer));
  CHECK(head.held_at_end == held(run, head, loss.first, loss.last, run.queries() - 1));
  const auto by_query = span_held(run, head.layer, head.kv_head, loss.first, loss.last);
  REQUIRE(by_query.size() == static_cast<std::size_t>(run.queries()));
  for (int q = 0; q < run.queries(); ++q) {
    CAPTURE(q);
    CHECK(by_query[static_cast<std::size_t>(q)] == held(run, head, loss.first, loss.last, q));
  }
}

void check_sums(const SpanLoss& loss) {
  double lost = 0;
  int wrong = 0, judged = 0, n_all = 0, n_none = 0;
  std::int64_t evicted = 0, token_queries = 0;
  for (const HeadSpan& head : loss.heads) {
    lost += head.mass_lost, wrong += head.wrong, judged += head.judged;
    evicted += static_cast<std::int64_t>(head.evictions.size()), token_queries += head.token_queries;
    n_all += head.held_at_answer == loss.read_at_answer, n_none += head.held_at_answer == 0;
  }
  CHECK(loss.mass_lost == Approx(lost));
  CHECK((loss.wrong == wrong && loss.judged == judged && loss.n_all == n_all && loss.n_none == n_none));
  CHECK((loss.evicted == evicted && loss.token_queries == token_queries));
}

}  // namespace

TEST_CASE("What a span lost is what plain loops over heads, tokens and queries find") {
  for (const char* policy : kPolicies) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      RunRecord run = random_run(seed, {.policy = policy, .oracle = seed != 3, .last_token_fed = seed != 2});
      run.model.head_dim = 8, run.model.dtype = seed == 1 ? "float32" : "bfloat16";
      const EvictionVerdicts verdicts = eviction_verdicts(run);
      for (const auto& [first, last] : {std::pair{0, 5}, {40, 44}, {60, 60}, {118, 130}, {150, 400}}) {
        CAPTURE(policy, seed, first, last);
        const SpanLoss loss = span_loss(run, first, last, verdicts);
        CHECK(loss.first == first);
        CHECK(loss.last == std::min(last, run.queries() - 1));
        CHECK(loss.answer == (first <= 120 ? 120 : run.queries() - 1));
        CHECK(loss.read_at_answer == std::min(loss.last, loss.answer) - first + 1);
        REQUIRE(loss.heads.size() == 6);
        for (const HeadSpan& head : loss.heads) check_head(run, head, loss);
        check_sums(loss);
        CHECK(loss.bytes == static_cast<double>(loss.evicted) * 2 * 8 * (seed == 1 ? 4 : 2));
      }
    }
  }
}

TEST_CASE("The worst misses are the wrong evictions of the most future mass") {
  for (const char* policy : kPolicies) {
    RunRecord run = random_run(4, {.policy = policy});
    const bool alike = policy == kPolicies[1];  // all masses equal: the order of ties decides
    for (int head = 0; alike && head < 6; ++head)
      for (float& value : run.future_mass.row(head / 3, head % 3)) value = std::isnan(value) ? value : 0.25f;
    std::vector<Eviction> all;
    for (int layer = 0; layer < run.model.n_layers; ++layer) {
      for (int head = 0; head < run.model.n_kv_heads; ++head) {
        for (int t = 0; t < run.queries(); ++t)
          if (eviction_verdict(run, layer, head, t).verdict == EvictionVerdict::wrong)
            all.push_back({t, layer, head, left_at(run, layer, head, t), mass(run, layer, head, t)});
      }
    }
    std::ranges::stable_sort(all, {}, &Eviction::t);  // of equal ones the oldest token, then the first head
    std::ranges::stable_sort(all, [](const Eviction& a, const Eviction& b) { return a.mass > b.mass; });
    for (const int n : {0, 1, 12, 100000}) {
      CAPTURE(policy, n);
      const std::vector<Eviction> worst = worst_misses(run, eviction_verdicts(run), n);
      REQUIRE(worst.size() == std::min(static_cast<std::size_t>(n), all.size()));
      for (std::size_t i = 0; i < worst.size(); ++i) {
        CHECK((worst[i].t == all[i].t && worst[i].layer == all[i].layer && worst[i].kv_head == all[i].kv_head));
        CHECK((worst[i].q == all[i].q && worst[i].mass == all[i].mass));
        CHECK(worst[i].verdict == EvictionVerdict::wrong);
      }
    }
  }
}

TEST_CASE("A span that the run has not read, and a run without tokens, have lost nothing") {
  const RunRecord run = random_run(1);
  const EvictionVerdicts verdicts = eviction_verdicts(run);
  for (const SpanLoss& loss :
       {span_loss(run, 500, 510, verdicts), span_loss(run, 9, 8, verdicts), span_loss(RunRecord{}, 0, 3, {})}) {
    CHECK(loss.heads.empty());
    CHECK(loss.n_tokens() <= 0);
    CHECK(loss.evicted == 0);
  }
  CHECK(worst_misses(RunRecord{}, {}, 5).empty());
  const RunRecord read_only = random_run(3, {.n_new = 0});  // no answer: the last query
  CHECK(span_loss(read_only, 5, 8, {}).answer == read_only.queries() - 1);
  RunRecord growing = random_run(2);
  growing.status = RunStatus::running, growing.n_queries = 90;
  const SpanLoss loss = span_loss(growing, 88, 95, {});
  CHECK((loss.last == 89 && loss.answer == 89 && loss.judged == 0));
}
