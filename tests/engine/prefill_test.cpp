// The claims that make live eviction believable: a prompt at once is the same as token by token, decisions are what a
// brute-force sort of the recorded scores gives, and they depend on nothing that comes later.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "engine/core/lifetime/running_top_k.h"
#include "engine/core/support/error.h"
#include "engine/decode/eviction/slot_cache.h"
#include "tests/engine/small_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

constexpr int kTokens = 150;

/// Every policy with what it can vary; windows are the scorer's 16.
const char* policy_of(int i) {
  static const char* const kPolicies[] = {"full",
                                          "streaming:sinks=4,window=32",
                                          "kvpop:budget=48,sinks=4,window=16",
                                          "kvpop:keep=25%,sinks=0,window=16,decay=0.99",
                                          "kvpop:budget=40,sinks=2,window=16,decay=0.97,stride=8",
                                          "kvpop:budget=20,sinks=4,window=16",  // top_k = 0
                                          "threshold:threshold=0.02,sinks=4,window=16"};
  return kPolicies[i];
}

void check_same_scores(const RunRecord& a, const RunRecord& b) {
  for (int layer = 0; layer < a.model.n_layers; ++layer) {
    for (int head = 0; head < a.model.n_kv_heads; ++head) {
      const std::vector<float>&x = a.scores.row(layer, head), &y = b.scores.row(layer, head);
      REQUIRE(x.size() == y.size());
      for (std::size_t t = 0; t < x.size(); ++t) {
        REQUIRE(std::isnan(x[t]) == std::isnan(y[t]));
        // float32 sums in another order (a product of one row and of many); 1e-6 is seen.
        if (!std::isnan(x[t])) REQUIRE(x[t] == Approx(y[t]).margin(1e-4));
      }
    }
  }
}

/// Contests of one head: who met whom and who lost; the scores may differ in the last bits.
void check_same_contests(const RunRecord& a, const RunRecord& b) {
  const auto sorted = [](const RunRecord& run) {
    std::vector<Contest> out = run.contests;
    std::sort(out.begin(), out.end(), [](const Contest& x, const Contest& y) {
      return std::tie(x.layer, x.kv_head, x.q) < std::tie(y.layer, y.kv_head, y.q);
    });
    return out;
  };
  const std::vector<Contest> x = sorted(a), y = sorted(b);
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    REQUIRE(std::tie(x[i].q, x[i].layer, x[i].kv_head, x[i].newcomer, x[i].boundary, x[i].evicted) ==
            std::tie(y[i].q, y[i].layer, y[i].kv_head, y[i].newcomer, y[i].boundary, y[i].evicted));
    REQUIRE(x[i].newcomer_effective == Approx(y[i].newcomer_effective).margin(1e-4));
  }
}

TEST_CASE("prefilling n tokens leaves the cache, lifetimes, scores, contests and logits of n single steps",
          "[engine][prefill]") {
  const std::string policy = policy_of(GENERATE(0, 1, 2, 3, 4, 5, 6));
  const int prompt_len = GENERATE(1, 20, 100);
  CAPTURE(policy, prompt_len);
  static const engine::LoadedModel model = test::small_model();
  const std::vector<std::int32_t> ids = test::some_ids(kTokens);
  const test::Fed at_once = test::feed(model, ids, kTokens, policy),
                  stepped = test::feed(model, ids, prompt_len, policy);

  CHECK(at_once.kept == stepped.kept);
  CHECK(at_once.record.evict_at == stepped.record.evict_at);
  check_same_scores(at_once.record, stepped.record);
  check_same_contests(at_once.record, stepped.record);
  CHECK(test::relative_difference(stepped.logits, at_once.logits) < 1e-4);
  for (int i = 1; i < kTokens; ++i) {
    REQUIRE(stepped.record.logprobs[i] == Approx(at_once.record.logprobs[i]).margin(1e-3));
  }
}

TEST_CASE("a prompt in chunks leaves the cache, lifetimes, scores, contests and logits of the prompt at once",
          "[engine][prefill]") {
  const std::string policy = policy_of(GENERATE(0, 1, 2, 3, 4, 5, 6));
  // Borders inside the sinks, inside the window, before the first contest and after many.
  const int chunk = GENERATE(1, 7, 16, 64, 100);
  const int prompt_len = GENERATE(131, kTokens);  // one after which decoding goes on, and all of it
  CAPTURE(policy, chunk, prompt_len);
  static const engine::LoadedModel model = test::small_model();
  const std::vector<std::int32_t> ids = test::some_ids(kTokens);
  const test::Fed at_once = test::feed(model, ids, kTokens, policy, {.chunk = kTokens}),
                  chunked = test::feed(model, ids, prompt_len, policy, {.chunk = chunk});

  CHECK(at_once.kept == chunked.kept);
  CHECK(at_once.record.evict_at == chunked.record.evict_at);
  check_same_scores(at_once.record, chunked.record);
  check_same_contests(at_once.record, chunked.record);
  // float32 sums in another order: products of other heights, softmax over the keys in other tiles; 1e-6 is seen.
  CHECK(test::relative_difference(chunked.logits, at_once.logits) < 1e-4);
  for (int i = 1; i < kTokens; ++i) {
    REQUIRE(chunked.record.logprobs[i] == Approx(at_once.record.logprobs[i]).margin(1e-3));
  }
}

TEST_CASE("the memory of a prompt under a fixed budget does not grow with the prompt", "[engine][prefill]") {
  const engine::LoadedModel model = test::small_model();
  const std::string policy = policy_of(GENERATE(1, 2, 4, 5));
  CAPTURE(policy);
  std::vector<std::int64_t> bytes;
  for (const int n : {100, 400, 1000}) {
    engine::Generation run(model, test::request(test::some_ids(n), policy));
    run.prefill({}, {.chunk = 64});
    bytes.push_back(run.cache().pool_bytes());
    for (int head = 0; head < 2; ++head)
      CHECK(run.cache().n_slots(0, head) <= run.request().policy.geometry(n).budget());
  }
  CHECK(bytes == std::vector<std::int64_t>(3, bytes[0]));
}

TEST_CASE("a prefill without log-probabilities or facts leaves the same logits", "[engine][prefill]") {
  const engine::LoadedModel model = test::small_model();
  const RunRequest request = test::request(test::some_ids(90), policy_of(GENERATE(0, 2)));
  engine::Generation with(model, request), without(model, request);
  without.set_recording(false);
  const StepFacts all = with.prefill({}, {.chunk = 32}), none = without.prefill({}, {.chunk = 32, .logprobs = false});
  CHECK(all.logprobs.size() == 90);
  CHECK(none.logprobs.empty());
  CHECK((none.scores.empty() && none.contests.empty() && none.lifetimes.empty()));
  CHECK(std::equal(with.logits().begin(), with.logits().end(), without.logits().begin()));
}

TEST_CASE("a prompt in chunks tells its progress in tokens and stops when it is told to", "[engine][prefill]") {
  const engine::LoadedModel model = test::small_model();
  engine::Generation run(model, test::request(test::some_ids(100), "streaming:sinks=4,window=32"));
  std::vector<double> values;
  engine::Hooks hooks;
  hooks.progress = [&](const char*, double value, double max) {
    CHECK(max == 100);
    values.push_back(value);
  };
  hooks.cancelled = [&] { return values.size() == 5; };
  CHECK_THROWS_AS(run.prefill(hooks, {.chunk = 25}), Error);
  CHECK(values == std::vector<double>{0, 12, 25, 37, 50});  // a layer of 2 counts half of a chunk
}

TEST_CASE("the cache holds exactly what the lifetimes say", "[engine][cache]") {
  const std::string policy = policy_of(GENERATE(0, 1, 2, 3, 4, 5, 6));
  CAPTURE(policy);
  const engine::LoadedModel model = test::small_model();
  const test::Fed fed = test::feed(model, test::some_ids(kTokens), 60, policy);
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      const std::vector<std::int32_t>& row = fed.record.evict_at.row(layer, head);
      std::vector<std::int32_t> visible_now;
      for (std::int32_t t = 0; t < kTokens; ++t) {
        if (visible(kTokens - 1, t, row[t])) visible_now.push_back(t);
      }
      CHECK(fed.kept[layer * 2 + head] == visible_now);
    }
  }
}

/// Lifetimes by definition: at every q, sort the survivors and the newcomer by effective score, and drop the last.
std::vector<std::int32_t> brute_force(const std::vector<float>& scores, const RetentionGeometry& g, int n) {
  std::vector<std::int32_t> evict_at(static_cast<std::size_t>(n), kUndecided), kept;
  for (int t = 0; t < std::min(g.n_sink, n); ++t) evict_at[t] = kNever;
  for (std::int32_t q = 0; q < n; ++q) {
    const std::int32_t t = q - g.window;
    if (t < g.n_sink) continue;
    evict_at[t] = kNever;
    kept.push_back(t);
    if (static_cast<int>(kept.size()) <= g.top_k) continue;
    const auto effective = [&](std::int32_t token) {
      const float decay = static_cast<float>((q - token) / g.decay_stride) * static_cast<float>(g.log_gamma);
      return scores[token] + decay;
    };
    std::stable_sort(kept.begin(), kept.end(), [&](std::int32_t a, std::int32_t b) {
      return effective(a) != effective(b) ? effective(a) > effective(b) : a < b;
    });
    evict_at[kept.back()] = q;
    kept.pop_back();
  }
  return evict_at;
}

TEST_CASE("KVpop's lifetimes are those of a brute-force sort of the recorded scores", "[engine][kvpop]") {
  const std::string policy =
      GENERATE(as<std::string>{}, "kvpop:budget=48,sinks=4,window=16", "kvpop:budget=64,sinks=0,window=16",
               "kvpop:keep=25%,sinks=1,window=16,decay=0.99", "kvpop:budget=40,sinks=2,window=16,decay=0.97,stride=8",
               "kvpop:budget=21,sinks=4,window=16", "kvpop:compression=2x,sinks=4,window=16");
  const int prompt_len = GENERATE(30, kTokens);
  CAPTURE(policy, prompt_len);
  const engine::LoadedModel model = test::small_model(GENERATE(1, 2));
  const RunRecord run = test::feed(model, test::some_ids(kTokens), prompt_len, policy).record;
  int evicted = 0;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      const std::vector<std::int32_t>& row = run.evict_at.row(layer, head);
      CHECK(row == brute_force(run.scores.row(layer, head), run.geometry(), kTokens));
      evicted += static_cast<int>(std::count_if(row.begin(), row.end(), [](std::int32_t e) { return e < kUndecided; }));
    }
  }
  CHECK(evicted > 0);  // or nothing was compared
}

TEST_CASE("cutting the prompt shorter changes no earlier decision", "[engine][prefill]") {
  const std::string policy = policy_of(GENERATE(1, 2, 4, 6));
  const int shorter = GENERATE(60, 97);
  CAPTURE(policy, shorter);
  const engine::LoadedModel model = test::small_model();
  std::vector<std::int32_t> ids = test::some_ids(kTokens);
  const auto record = [&](int n) {  // the same n_positions for both, to which shares refer
    engine::Generation run(model, test::request({ids.begin(), ids.begin() + n}, policy, kTokens - n));
    return run.prefill();
  };
  const StepFacts all = record(kTokens), cut = record(shorter);
  const auto key = [](const StepFacts::Lifetime& l) { return std::tuple(l.layer, l.kv_head, l.token, l.evict_at); };
  std::vector<std::tuple<int, int, int, int>> early, kept;
  for (const auto& l : all.lifetimes) {
    if (l.evict_at < shorter) early.push_back(key(l));
  }
  for (const auto& l : cut.lifetimes) kept.push_back(key(l));
  CHECK(!early.empty());
  CHECK((early == kept));  // tuples cannot be printed beside LibTorch
}

TEST_CASE("a budget that holds everything is the full cache, bit for bit", "[engine][kvpop]") {
  const engine::LoadedModel model = test::small_model();
  const std::vector<std::int32_t> ids = test::some_ids(kTokens);
  const int prompt_len = GENERATE(1, 70, kTokens);
  const test::Fed full = test::feed(model, ids, prompt_len, "full");
  CHECK(test::feed(model, ids, prompt_len, "kvpop:budget=150,sinks=4,window=16").logits == full.logits);
  CHECK(test::feed(model, ids, prompt_len, "streaming:sinks=4,window=150").logits == full.logits);
  CHECK(test::feed(model, ids, prompt_len, "threshold:threshold=-1000,sinks=4,window=16").logits == full.logits);
  CHECK(test::feed(model, ids, prompt_len, "kvpop:budget=60,sinks=4,window=16").logits != full.logits);
}

TEST_CASE("what was evicted is not read: NaN in every free row of the pool changes nothing", "[engine][cache]") {
  const std::string policy = policy_of(GENERATE(0, 1, 2, 6));
  CAPTURE(policy);
  const engine::LoadedModel model = test::small_model();
  const std::vector<std::int32_t> ids = test::some_ids(40);
  engine::Generation clean(model, test::request(ids, policy, 60)), poisoned(model, test::request(ids, policy, 60));
  clean.prefill();
  poisoned.prefill();
  for (const std::int32_t id : test::some_ids(60, 512, 9)) {
    clean.step_forced(id);
    poisoned.cache().poison_free_rows();
    poisoned.step_forced(id);
  }
  CHECK(std::equal(clean.logits().begin(), clean.logits().end(), poisoned.logits().begin()));
}

TEST_CASE("a fixed budget never takes another page", "[engine][cache]") {
  const engine::LoadedModel model = test::small_model();
  const std::string policy = policy_of(GENERATE(1, 2, 4, 5));
  engine::Generation run(model, test::request(test::some_ids(30), policy, 200));
  run.prefill();
  const std::int64_t bytes = run.cache().pool_bytes();
  while (!run.finished()) run.step();
  CHECK(run.cache().pool_bytes() == bytes);
  CHECK(run.cache().bytes() == bytes);
}

TEST_CASE("the same seed draws the same tokens, another seed others", "[engine][generate]") {
  const engine::LoadedModel model = test::small_model();
  const auto draw = [&](std::uint64_t seed) {
    RunRequest request = test::request(test::some_ids(20), "full", 30);
    request.sampling = {.temperature = 1.0, .top_k = 50, .top_p = 0.95, .seed = seed};
    return record_run(model, request).ids;
  };
  CHECK(draw(3) == draw(3));
  CHECK(draw(3) != draw(4));
}

TEST_CASE("prompts and policies that cannot be are refused with what was expected", "[engine][generate]") {
  const engine::LoadedModel model = test::small_model(), without_scorer = test::small_model(1, 0);
  const auto code = [](const engine::LoadedModel& on, const RunRequest& request) {
    try {
      engine::Generation run(on, request);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::done;
  };
  CHECK(code(model, test::request(test::some_ids(1024), "full", 5)) == ExitCode::done);
  CHECK(code(model, test::request(test::some_ids(1025), "full")) == ExitCode::bad_input);
  CHECK(code(model, test::request({}, "full")) == ExitCode::bad_input);
  CHECK(code(model, test::request({512}, "full")) == ExitCode::bad_input);
  CHECK(code(model, test::request({-1}, "full")) == ExitCode::bad_input);
  CHECK(code(model, test::request({1}, "kvpop:budget=10,sinks=4,window=16")) == ExitCode::usage);
  CHECK(code(model, test::request({1}, "kvpop:budget=100,sinks=4,window=17")) == ExitCode::bad_input);
  CHECK(code(without_scorer, test::request({1}, "kvpop:budget=100,sinks=4,window=16")) == ExitCode::bad_input);
  CHECK(code(without_scorer, test::request({1}, "streaming:sinks=4,window=16")) == ExitCode::done);
}

}  // namespace
}  // namespace kvscope
