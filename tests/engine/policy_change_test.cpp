// A policy that is changed in mid-run, and the memory that follows from what is kept.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/core/lifetime/lifetime_map.h"
#include "engine/core/support/error.h"
#include "engine/decode/eviction/slot_cache.h"
#include "tests/engine/gated_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

constexpr int kTokens = 120, kPrompt = 80;

const engine::LoadedModel& model() {
  static const engine::LoadedModel loaded =
      test::gated_model({test::random_gate(GateKind::kvpop_mlstm, 16), test::random_gate(GateKind::wg_kv)});
  return loaded;
}

/// A run after its prompt and `n_steps` tokens, and what it told by head.
struct Going {
  explicit Going(const std::string& policy, int n_steps = 10)
      : run(model(), test::request({ids().begin(), ids().begin() + kPrompt}, policy, kTokens - kPrompt)) {
    note(run.prefill());
    for (int i = 0; i < n_steps; ++i) step();
  }
  static const std::vector<std::int32_t>& ids() {
    static const std::vector<std::int32_t> all = test::some_ids(kTokens, 512, 41);
    return all;
  }
  int n() const { return static_cast<int>(run.ids().size()); }
  void step() { note(run.step_forced(ids()[run.ids().size()])); }
  void note(const StepFacts& facts) {
    for (const auto& s : facts.scores) scores[s.layer * 2 + s.kv_head][s.token] = s.value;
    for (const auto& l : facts.lifetimes) evict_at[l.layer * 2 + l.kv_head][l.token] = l.evict_at;
  }
  std::vector<std::vector<std::int32_t>> kept() const {
    std::vector<std::vector<std::int32_t>> out;
    for (int head = 0; head < 4; ++head) out.push_back(run.cache().positions(head / 2, head % 2));
    return out;
  }

  engine::Generation run;
  std::map<std::int32_t, float> scores[4];
  std::map<std::int32_t, std::int32_t> evict_at[4];
};

TEST_CASE("policy change: a smaller budget evicts at once, and the best by effective score stay", "[engine][rules]") {
  const std::string rest = GENERATE(as<std::string>{}, "sinks=4,window=16", "sinks=4,window=16,decay=0.9",
                                    "sinks=2,window=16,decay=0.9,stride=8");
  CAPTURE(rest);
  Going going("kvpop:budget=48," + rest);
  const auto before = going.kept();
  const PolicySpec smaller = PolicySpec::parse("kvpop:budget=30," + rest);
  const RetentionGeometry geometry = smaller.geometry(kTokens);
  StepFacts facts;
  going.run.change_policy(smaller, &facts);
  const int n = going.n();
  for (int head = 0; head < 4; ++head) {
    CAPTURE(head);
    const auto of = static_cast<std::size_t>(head);
    std::vector<std::int32_t> expected, long_range;
    for (const std::int32_t t : before[of]) {
      (t < geometry.n_sink || t >= n - geometry.window ? expected : long_range).push_back(t);
    }
    REQUIRE(long_range.size() == static_cast<std::size_t>(48 - geometry.n_sink - 16));
    const auto effective = [&](std::int32_t t) {
      return going.scores[head].at(t) + (n - t) / geometry.decay_stride * geometry.log_gamma;
    };
    std::stable_sort(long_range.begin(), long_range.end(),
                     [&](std::int32_t a, std::int32_t b) { return effective(a) > effective(b); });
    expected.insert(expected.end(), long_range.begin(), long_range.begin() + geometry.top_k);
    std::sort(expected.begin(), expected.end());
    CHECK(expected.size() == 30u);
    CHECK(going.kept()[of] == expected);
  }
  CHECK(facts.lifetimes.size() == 4u * 18);
  for (const auto& l : facts.lifetimes) CHECK(l.evict_at == n);
  while (!going.run.finished()) {
    going.step();
    for (const auto& positions : going.kept()) REQUIRE(positions.size() == 30u);
  }
}

TEST_CASE("policy change: TOVA and H2O come down to a smaller budget too", "[engine][rules]") {
  const auto [policy, smaller, most] = GENERATE(table<const char*, const char*, std::size_t>(
      {{"tova:budget=48", "tova:budget=30", 31}, {"h2o:budget=48,window=8", "h2o:budget=30,window=8", 31}}));
  CAPTURE(policy);
  Going going(policy);
  StepFacts facts;
  going.run.change_policy(PolicySpec::parse(smaller), &facts);
  for (const auto& positions : going.kept()) CHECK(positions.size() == 30u);
  for (const auto& l : facts.lifetimes) CHECK(l.evict_at == going.n());
  while (!going.run.finished()) {
    going.step();
    for (const auto& positions : going.kept()) REQUIRE(positions.size() <= most);
  }
}

TEST_CASE("policy change: a higher threshold holds from the next token on that leaves the window", "[engine][rules]") {
  Going going("wg-kv:threshold=0.4,window=16"), unchanged("wg-kv:threshold=0.4,window=16");
  const int changed_at = going.n();
  StepFacts facts;
  going.run.change_policy(PolicySpec::parse("wg-kv:threshold=0.6,window=16"), &facts);
  CHECK(facts.lifetimes.empty());
  CHECK(going.kept() == unchanged.kept());
  while (!going.run.finished()) going.step();
  int between = 0;
  for (int head = 0; head < 4; ++head) {
    for (std::int32_t t = 0; t + 16 < kTokens; ++t) {
      CAPTURE(head, t);
      const float gate = going.scores[head].at(t);
      const bool stays = gate > (t + 16 < changed_at ? .4f : .6f);
      REQUIRE(going.evict_at[head].contains(t) == !stays);
      if (!stays) REQUIRE(going.evict_at[head].at(t) == t + 16);
      between += t + 16 >= changed_at && gate > .4f && gate <= .6f;
    }
  }
  CHECK(between > 0);  // tokens whose fate the change decided
}

TEST_CASE("policy change: anything else is refused and changes nothing", "[engine][rules]") {
  const auto [policy, other] = GENERATE(
      table<const char*, const char*>({{"kvpop:budget=48,sinks=4,window=16", "top-k:budget=40,sinks=4,window=16"},
                                       {"kvpop:budget=48,sinks=4,window=16", "kvpop:budget=49,sinks=4,window=16"},
                                       {"kvpop:budget=48,sinks=4,window=16", "kvpop:budget=40,sinks=3,window=16"},
                                       {"kvpop:budget=48,sinks=4,window=16", "kvpop:budget=40,sinks=4,window=15"},
                                       {"kvpop:budget=48,sinks=4,window=16", "kvpop:budget=19,sinks=4,window=16"},
                                       {"wg-kv:threshold=0.4,window=16", "wg-kv:threshold=0.4,window=16,read=32"},
                                       {"wg-kv:threshold=0.4,window=16", "wg-kv:threshold=0.4,window=16,pool=8"},
                                       {"tova:budget=48", "tova:budget=40,protect=1"},
                                       {"tova:budget=48", "tova:budget=40,prefill=sparse"},
                                       {"h2o:budget=48,window=8", "h2o:budget=40,window=9"},
                                       {"h2o:budget=48,window=8", "h2o:budget=40,window=8,normalise=mean"},
                                       {"snapkv:budget=48,window=8", "snapkv:budget=40,window=8,kernel=7"},
                                       {"random:budget=48,window=16,seed=1", "random:budget=48,window=16,seed=2"},
                                       {"streaming:sinks=4,window=32", "streaming:sinks=4,window=31"}}));
  CAPTURE(policy, other);
  Going going(policy), unchanged(policy);
  StepFacts facts;
  try {
    going.run.change_policy(PolicySpec::parse(other), &facts);
    FAIL("it was not refused");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
  }
  CHECK(facts.lifetimes.empty());
  CHECK(going.run.request().policy == PolicySpec::parse(policy));
  while (!going.run.finished()) going.step(), unchanged.step();
  CHECK(going.kept() == unchanged.kept());
  CHECK(std::equal(going.run.logits().begin(), going.run.logits().end(), unchanged.run.logits().begin()));
}

// 16 tokens of 64 features, keys and values, float32.
constexpr std::int64_t kPageBytes = 2LL * engine::kPageSize * 64 * 4;

/// Bytes of the pages that hold what each head keeps, `spare` slots more each.
std::int64_t page_bytes(const engine::Generation& run, int spare) {
  std::int64_t pages = 0;
  for (int head = 0; head < 4; ++head) {
    const auto kept = static_cast<std::int64_t>(run.cache().positions(head / 2, head % 2).size());
    pages += (kept + spare + engine::kPageSize - 1) / engine::kPageSize;
  }
  return pages * kPageBytes;
}

TEST_CASE("memory: what a policy evicts it does not pay for", "[engine][rules][cache]") {
  // 400 tokens of prompt and 40 of answer: 28 pages a head for a full cache. What the method keeps in pages, and the
  // pool no more than twice that: it doubles when it is used up.
  struct Row {
    const char* policy;
    int pages;  // a head, at the most
  };
  const Row row = GENERATE(Row{"streaming:sinks=4,window=44", 3}, Row{"kvpop:budget=48,sinks=4,window=16", 3},
                           Row{"snapkv:budget=48,window=8", 6}, Row{"tova:budget=48", 4},
                           Row{"h2o:budget=48,window=8", 4}, Row{"expected-attention:budget=48,interval=16", 4},
                           Row{"wg-kv:threshold=0.4,window=16,pool=30,drop=0.25,observe=8", 6});
  CAPTURE(row.policy);
  const std::vector<std::int32_t> ids = test::some_ids(440, 512, 42);
  engine::Generation run(model(), test::request({ids.begin(), ids.begin() + 400}, row.policy, 40)),
      full(model(), test::request({ids.begin(), ids.begin() + 400}, "full", 40));
  run.prefill();
  full.prefill();
  for (int i = 400; i < 440; ++i) {
    run.step_forced(ids[static_cast<std::size_t>(i)]);
    full.step_forced(ids[static_cast<std::size_t>(i)]);
  }
  CHECK(full.cache().bytes() == 4 * 28 * kPageBytes);
  CHECK(run.cache().bytes() <= 4 * row.pages * kPageBytes);
  CHECK(run.cache().bytes() >= page_bytes(run, 0));
  CHECK(run.cache().pool_bytes() <= 2 * 4 * row.pages * kPageBytes);
  CHECK(run.cache().pool_bytes() < full.cache().pool_bytes() / 2);
}

TEST_CASE("memory: heads pay for what they keep, in pages of 16", "[engine][rules][cache]") {
  const std::vector<std::int32_t> ids = test::some_ids(300, 512, 43);
  const std::string policy = GENERATE(as<std::string>{}, "wg-kv:threshold=0.5,window=16",
                                      "wg-kv:threshold=0.5,window=16,pool=20,drop=0.25,observe=8",
                                      "threshold:threshold=0.02,sinks=4,window=16", "snapkv:budget=48,window=8");
  CAPTURE(policy);
  engine::Generation run(model(), test::request({ids.begin(), ids.begin() + 200}, policy, 100));
  run.prefill();
  CHECK(run.cache().bytes() == page_bytes(run, 0));  // to the page, whether a compression packed it or nothing left
  const std::int64_t after_prompt = run.cache().bytes();
  for (int i = 200; i < 300; ++i) {
    run.step_forced(ids[static_cast<std::size_t>(i)]);
    // A step readies the page of the next slot.
    REQUIRE(run.cache().bytes() >= page_bytes(run, 0));
    if (policy.find("pool") == std::string::npos) REQUIRE(run.cache().bytes() <= page_bytes(run, 1));
  }
  if (policy.find("pool") == std::string::npos) CHECK(run.cache().bytes() > after_prompt);
}

TEST_CASE("policy change: what a run plans holds from its query on, and stands in its record", "[engine][rules]") {
  RunRequest request =
      test::request({Going::ids().begin(), Going::ids().begin() + kPrompt}, "kvpop:budget=48,sinks=4,window=16", 30);
  const PolicySpec smaller = PolicySpec::parse("kvpop:budget=30,sinks=4,window=16"),
                   least = PolicySpec::parse("kvpop:budget=24,sinks=4,window=16");
  // The first is planned within the prompt, which goes through under one policy.
  request.changes = {{kPrompt - 5, smaller}, {kPrompt + 7, least}};
  const RunRecord record = engine::record_run(model(), request);
  REQUIRE((record.changes == std::vector<PolicyChange>{{kPrompt, smaller}, {kPrompt + 7, least}}));
  const auto kept = [&](int q) {
    const std::vector<std::int32_t>& evict_at = record.evict_at.row(1, 1);
    int n = 0;
    for (std::int32_t t = 0; t <= q; ++t) n += visible(q, t, evict_at[static_cast<std::size_t>(t)]);
    return n;
  };
  CHECK(kept(kPrompt - 1) == 48);
  for (int q = kPrompt; q < kPrompt + 7; ++q) CHECK(kept(q) == 30);
  for (int q = kPrompt + 7; q < record.queries(); ++q) CHECK(kept(q) == 24);
}

}  // namespace
}  // namespace kvscope
