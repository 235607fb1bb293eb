// One budget for all heads, at work: what a run decides is what its own recorded scores say, what it keeps fits the pool, and
// its memory follows.
#include <algorithm>
#include <cmath>

#include "engine/core/lifetime/pooled_top_k.h"
#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "engine/decode/eviction/slot_cache.h"
#include "engine/decode/forced_pass.h"
#include "tests/engine/policy_cases.h"
#include "tests/engine/small_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

constexpr int kTokens = 130, kPrompt = 61, kHeads = 4;

const engine::LoadedModel& model() { return test::model_of_every_policy(); }

RunRequest request_of(const std::string& policy) {
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 9);
  RunRequest request = test::request({ids.begin(), ids.begin() + kPrompt}, policy, kTokens - kPrompt);
  request.answer_ids = {ids.begin() + kPrompt, ids.end()};
  return request;
}

int held_long_range(const RunRecord& run, int head, std::int32_t q) {
  const RetentionGeometry geometry = run.geometry();
  const auto& row = run.evict_at.row(head / 2, head % 2);
  int n = 0;
  for (std::int32_t t = geometry.n_sink; t <= q - geometry.window; ++t)
    n += visible(q, t, row[static_cast<std::size_t>(t)]);
  return n;
}

TEST_CASE("pooled budget: a run decides what its own recorded scores say, and fills the pool at every query",
          "[engine][rules]") {
  const std::string policy = GENERATE(as<std::string>{}, "kvpop:budget=48,sinks=4,window=16,capacity=pooled",
                                      "kvpop:budget=30,sinks=2,window=16,decay=0.95,stride=4,capacity=pooled",
                                      "top-k:budget=24,sinks=0,window=16,decay=0.9,capacity=pooled",
                                      "random:budget=40,sinks=4,window=16,seed=3,capacity=pooled",
                                      "random:budget=27,sinks=1,window=24,seed=5,capacity=pooled",
                                      "oracle:budget=40,window=16,mass=rms,capacity=pooled");
  CAPTURE(policy);
  const RunRecord run = engine::record_run(model(), request_of(policy));
  const bool late = run.scorer.delay == 16;
  CHECK(late == (policy.starts_with("kvpop") || policy.starts_with("top-k")));
  LifetimeMap evict_at(2, 2);
  evict_at.resize(kTokens, kUndecided);
  std::vector<Contest> contests;
  pooled_lifetimes(run.policy, {kTokens, kPrompt, run.queries()}, {0, 0, 2, 2}, run.scores, run.scorer.delay, evict_at,
                   &contests);
  CHECK((run.evict_at == evict_at));
  CHECK((run.contests == contests));
  CHECK((what_if(run, run.policy).evict_at == run.evict_at));
  const int top_k = run.geometry().top_k;
  bool uneven = false;
  for (std::int32_t q = kPrompt; q < run.queries(); ++q) {
    int sum = 0, most = 0;
    for (int head = 0; head < kHeads; ++head) {
      const int n = held_long_range(run, head, q);
      sum += n, most = std::max(most, n);
    }
    REQUIRE(sum == kHeads * top_k);
    uneven |= most > top_k;
  }
  CHECK(uneven);
}

TEST_CASE(
    "pooled budget: with an interval the prompt is under the pool, as its tokens one by one and as a text that is read",
    "[engine][rules]") {
  const std::string policy =
      GENERATE(as<std::string>{}, "kvpop:budget=48,sinks=4,window=16,capacity=pooled,interval=8",
               "kvpop:budget=30,sinks=2,window=16,decay=0.95,stride=4,capacity=pooled,interval=1",
               "random:budget=40,sinks=4,window=16,seed=3,capacity=pooled,interval=20",
               "oracle:budget=40,window=16,mass=rms,capacity=pooled,interval=7");
  CAPTURE(policy);
  const RunRecord run = engine::record_run(model(), request_of(policy));
  CHECK((what_if(run, run.policy).evict_at == run.evict_at));
  CHECK((what_if(run, run.policy).contests == run.contests));
  const int top_k = run.geometry().top_k, interval = run.policy.count("interval");
  int most_together = 0;
  bool in_prompt = false;
  for (std::int32_t q = 0; q < run.queries(); ++q) {
    int sum = 0;
    for (int head = 0; head < kHeads; ++head) sum += held_long_range(run, head, q);
    REQUIRE(sum <= kHeads * top_k);
    most_together = std::max(most_together, sum);
  }
  for (int head = 0; head < kHeads; ++head) {
    for (const std::int32_t at : run.evict_at.row(head / 2, head % 2)) {
      if (at >= kUndecided) continue;
      REQUIRE(at % interval == 0);
      in_prompt |= at < kPrompt;
    }
  }
  CHECK(in_prompt);
  CHECK(most_together == kHeads * top_k);  // the last query before a cut

  const int chunk = GENERATE(1, 7, 64);  // of which the policy takes no notice
  ScoreRequest read{.text = "", .ids = run.ids, .chunk = chunk};
  read.policy = run.policy;
  const RunRecord forced = engine::record_run(model(), engine::forced_request(model(), read));
  CHECK((forced.evict_at == run.evict_at));
  double worst = 0;
  for (std::size_t t = 1; t < forced.logprobs.size(); ++t)
    worst = std::max(worst, std::abs(double{forced.logprobs[t]} - run.logprobs[t]));
  CHECK(worst < 1e-4);
}

TEST_CASE("pooled budget: the cache holds the pool and no page more than it needs", "[engine][rules]") {
  const std::string policy = GENERATE(as<std::string>{}, "kvpop:budget=48,sinks=4,window=16,capacity=pooled",
                                      "random:budget=40,sinks=4,window=16,seed=3,capacity=pooled");
  CAPTURE(policy);
  const PolicySpec spec = PolicySpec::parse(policy);
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 9);
  engine::Generation run(model(), test::request({ids.begin(), ids.begin() + kPrompt}, policy, kTokens - kPrompt)),
      clean(model(), run.request());
  run.prefill();
  clean.prefill();
  const std::int64_t page = 2 * engine::kPageSize * model().config().head_dim * 4;
  CHECK(run.cache_bytes() == kHeads * ((kPrompt + 15) / 16) * page);  // the prompt is dense
  std::int64_t of_pages = 0;
  for (int i = kPrompt; i < kTokens; ++i) {
    CAPTURE(i);
    run.step_forced(ids[static_cast<std::size_t>(i)]);
    clean.step_forced(ids[static_cast<std::size_t>(i)]);
    std::int64_t held = 0, needed = 0;
    for (int head = 0; head < kHeads; ++head) {
      const int n = static_cast<int>(run.cache().positions(head / 2, head % 2).size());
      CHECK(run.cache().n_slots(head / 2, head % 2) == n);  // no holes
      held += n, needed += (n + 15) / 16;
    }
    REQUIRE(held == kHeads * spec.geometry(kTokens).budget());
    // A head may keep the page of its next token.
    REQUIRE(run.cache_bytes() <= (needed + kHeads) * page);
    of_pages = std::max(of_pages, run.cache_bytes());
    run.cache().poison_free_rows();
  }
  CHECK(of_pages < kHeads * ((kTokens + 15) / 16) * page);
  const std::span<const float> found = run.logits(), expected = clean.logits();
  CHECK(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
}

TEST_CASE("pooled budget: the one head of a model has what it would have alone", "[engine][rules]") {
  ModelConfig config = test::small_config();
  config.n_layers = 1;
  config.n_heads = 2;
  config.n_kv_heads = 1;
  config.set_family(*find_family("Qwen3ForCausalLM"));  // a row for each layer
  const engine::LoadedModel one = engine::LoadedModel::random(config, 4, {"cpu", "float32"}, 16);
  const int chunk = GENERATE(1, 8);
  CAPTURE(chunk);
  const auto read = [&](const char* capacity) {
    ScoreRequest request{.text = "", .ids = test::some_ids(90, 512, 12), .chunk = chunk};
    request.policy = PolicySpec::parse(std::string("random:budget=32,sinks=2,window=12,seed=7,capacity=") + capacity);
    return engine::record_run(one, engine::forced_request(one, request));
  };
  const RunRecord alone = read("head"), pooled = read("pooled");
  for (std::size_t t = 0; t < 90; ++t) {
    const std::int32_t a = alone.evict_at.row(0, 0)[t], b = pooled.evict_at.row(0, 0)[t];
    // A chunk's decisions hold from its end on; behind the last there is nobody left to see them.
    REQUIRE((a == b || (a == 90 && b >= kUndecided)));
  }
  double worst = 0;
  for (std::size_t t = 1; t < 90; ++t)
    worst = std::max(worst, std::abs(double{alone.logprobs[t]} - pooled.logprobs[t]));
  CHECK(worst < 1e-4);
}

TEST_CASE("pooled budget: a text that is read is cut before every chunk", "[engine][forced]") {
  const int chunk = GENERATE(1, 7, 16);
  const std::string policy = GENERATE(as<std::string>{}, "kvpop:budget=30,sinks=4,window=16,decay=0.97,capacity=pooled",
                                      "random:budget=24,sinks=2,window=9,seed=2,capacity=pooled");
  CAPTURE(policy, chunk);
  ScoreRequest request{.text = "", .ids = test::some_ids(kTokens, 512, 5), .chunk = chunk};
  request.policy = PolicySpec::parse(policy);
  const RunRecord run = engine::record_run(model(), engine::forced_request(model(), request));
  PooledTopK pool(std::vector<RetentionGeometry>(kHeads, run.geometry()), run.scorer.delay);
  for (int head = 0; head < kHeads; ++head) {
    for (int t = 0; t < kTokens - run.scorer.delay; ++t)
      pool.tell(head, t, run.scores.row(head / 2, head % 2)[static_cast<std::size_t>(t)]);
  }
  std::vector<std::vector<std::int32_t>> expected(kHeads, std::vector<std::int32_t>(kTokens, kNever));
  for (int q = chunk; q < kTokens; q += chunk) {
    for (const PooledTopK::Leaver& one : pool.cut(q).left)
      expected[static_cast<std::size_t>(one.head)][static_cast<std::size_t>(one.t)] = q;
  }
  for (int head = 0; head < kHeads; ++head) {
    for (int t = 0; t < kTokens; ++t) {
      const std::int32_t at = run.evict_at.row(head / 2, head % 2)[static_cast<std::size_t>(t)];
      REQUIRE(std::min(at, kUndecided) ==
              std::min(expected[static_cast<std::size_t>(head)][static_cast<std::size_t>(t)], kUndecided));
    }
  }
}

TEST_CASE("pooled budget: a smaller budget or another decay half-way holds from the next query on", "[engine][rules]") {
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, 512, 9);
  engine::Generation run(
      model(), test::request({ids.begin(), ids.begin() + kPrompt}, "kvpop:budget=48,sinks=4,window=16,capacity=pooled",
                             kTokens - kPrompt));
  run.prefill();
  for (int i = kPrompt; i < kPrompt + 20; ++i) run.step_forced(ids[static_cast<std::size_t>(i)]);
  run.change_policy(PolicySpec::parse("kvpop:budget=30,sinks=4,window=16,decay=0.9,capacity=pooled"), nullptr);
  const StepFacts facts = run.step_forced(ids[kPrompt + 20]);
  CHECK(facts.lifetimes.size() == kHeads * (48 - 30 + 1u));
  std::size_t held = 0;
  for (int head = 0; head < kHeads; ++head) held += run.cache().positions(head / 2, head % 2).size();
  CHECK(held == kHeads * 30u);
  for (const char* other :
       {"kvpop:budget=30,sinks=4,window=16,decay=0.9", "kvpop:budget=40,sinks=4,window=16,capacity=pooled"})
    CHECK_THROWS_AS(run.change_policy(PolicySpec::parse(other), nullptr), Error);
}

}  // namespace
}  // namespace kvscope
