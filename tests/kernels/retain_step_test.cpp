#include "kernels/retain_step.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>

#include "kernels/append.h"
#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

constexpr int kHeads = 3;
constexpr int kSteps = 90;

enum class Scores { random, ties, all_equal, minus_infinity, rising, falling };

struct Problem {
  RetainRule rule = RetainRule::top_k;
  int n_sink = 4, window = 16, top_k = 8, decay_stride = 1;
  float threshold = 0.25f;
  bool strict = false;
  std::vector<float> head_threshold;     // [kHeads] or empty
  std::vector<std::int32_t> head_top_k;  // [kHeads] or empty
  std::vector<float> log_gamma;          // [kHeads] or empty
  std::vector<float> score;              // [kSteps, kHeads]: of the token at that position
  bool has_hints = false;                // of the slots of recent tokens, now and then those of seven steps ago

  float threshold_of(int head) const { return head_threshold.empty() ? threshold : head_threshold[head]; }
  int top_k_of(int head) const { return head_top_k.empty() ? top_k : head_top_k[head]; }
};

std::vector<float> make_scores(Scores kind) {
  std::vector<float> scores = random_normal(kSteps * kHeads, 7);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const auto position = static_cast<float>(i / kHeads);
    if (kind == Scores::ties) scores[i] = std::round(scores[i]);
    if (kind == Scores::all_equal) scores[i] = 0.5f;
    if (kind == Scores::minus_infinity && i % 2 == 0) scores[i] = -INFINITY;
    if (kind == Scores::rising) scores[i] = 0.1f * position;
    if (kind == Scores::falling) scores[i] = -0.1f * position;
  }
  return scores;
}

/// A head's decisions over a sequence and what is in its cache afterwards.
struct History {
  std::vector<RetainDecision> decisions;    // [kSteps, kHeads]
  std::vector<std::int32_t> n_slots;        // [kHeads]
  std::vector<std::int32_t> slot_position;  // [kHeads, capacity]
};

History run(Backend backend, const Problem& p) {
  HostCache cache = empty_cache({kSteps + 8, kSteps + 8, kSteps + 8}, 64, 8, DType::f32, 12);
  cache.n_slots.assign(kHeads, 0);
  Memory memory(backend);
  const SlotCacheView view = upload(cache, memory);
  const float* row = memory.put(std::vector<float>(kHeads * 64, 1.0f));  // keys and values do not matter here
  std::vector<std::int32_t> positions(kSteps);
  std::iota(positions.begin(), positions.end(), 0);
  const std::int32_t* position = memory.put(positions);
  const float* score = memory.put(p.score);
  const float* log_gamma = p.log_gamma.empty() ? nullptr : memory.put(p.log_gamma);
  const float* head_threshold = p.head_threshold.empty() ? nullptr : memory.put(p.head_threshold);
  const std::int32_t* head_top_k = p.head_top_k.empty() ? nullptr : memory.put(p.head_top_k);
  auto* decision = memory.put(std::vector<RetainDecision>(kSteps * kHeads, RetainDecision{-9, -9, 9, 9, 9, -9, -9}));
  auto* slot = memory.put(std::vector<std::int32_t>(kSteps * kHeads, -9));
  // Two, of which one falls behind: a hint is right, out of date, or nonsense.
  std::int32_t* hints[] = {memory.put(std::vector<std::int32_t>(kHeads * p.window, -1)),
                           memory.put(std::vector<std::int32_t>(kHeads * p.window, 1 << 20))};
  for (int q = 0; q < kSteps; ++q) {
    const RetainStepArgs step = {.cache = view,
                                 .policy = {.rule = p.rule,
                                            .log_gamma = log_gamma,
                                            .threshold = p.threshold,
                                            .head_threshold = head_threshold,
                                            .strict = p.strict,
                                            .n_sink = p.n_sink,
                                            .window = p.window,
                                            .top_k = p.top_k,
                                            .head_top_k = head_top_k,
                                            .decay_stride = p.decay_stride,
                                            .recent_slot = p.has_hints ? hints[q / 7 % 2] : nullptr},
                                 // The newcomer's score; before the first one there is nothing to read.
                                 .score = score + std::max(0, q - p.window) * kHeads,
                                 .position = q,
                                 .decision = decision + q * kHeads,
                                 .slot = slot + q * kHeads};
    retain_step(step, {backend});
    const AppendArgs write = {
        .cache = view, .k = row, .v = row, .slot = slot + q * kHeads, .position = position + q, .n_tokens = 1};
    append(write, {backend});
  }
  return {memory.get(decision), memory.get(view.n_slots), memory.get(view.slot_position)};
}

/// KVpop eq. 5, one rounding at a time.
float effective(const Problem& p, int head, int t, int q) {
  const float log_gamma = p.log_gamma.empty() ? 0.0f : p.log_gamma[head];
  const volatile float decay = static_cast<float>((q - t) / p.decay_stride) * log_gamma;
  return p.score[t * kHeads + head] + decay;
}

/// The definition without a cache: a list of kept positions, sorted anew at every step.
class BruteForce {
 public:
  BruteForce(const Problem& p, int head) : p_(p), head_(head) {}

  RetainDecision step(int q) {
    RetainDecision decision = {.newcomer = -1, .boundary = -1, .evicted = -1, .slot = -1};
    const int t = q - p_.window;
    if (p_.rule != RetainRule::keep_all && t >= p_.n_sink) decide(q, t, decision);
    if (decision.evicted >= 0) {
      decision.slot = slot_of_[decision.evicted];
      kept_.erase(decision.evicted);
    } else {
      decision.slot = n_slots_++;
    }
    slot_of_[q] = decision.slot;
    kept_.insert(q);
    return decision;
  }
  const std::set<int>& kept() const { return kept_; }
  int n_slots() const { return n_slots_; }

 private:
  void decide(int q, int t, RetainDecision& decision) {
    decision.newcomer = t;
    if (p_.rule == RetainRule::window) {
      decision.evicted = t;
      return;
    }
    decision.newcomer_score = p_.score[t * kHeads + head_];
    decision.newcomer_effective = effective(p_, head_, t, q);
    if (p_.rule == RetainRule::threshold) {
      const float threshold = p_.threshold_of(head_);
      const bool stays = p_.strict ? decision.newcomer_score > threshold : decision.newcomer_score >= threshold;
      if (!stays) decision.evicted = t;
      return;
    }
    std::vector<int> ranked;  // long-range tokens without the newcomer, best first, of equal ones the older first
    for (const int position : kept_) {
      if (position >= p_.n_sink && position < t) ranked.push_back(position);
    }
    const auto better = [&](int a, int b) { return effective(p_, head_, a, q) > effective(p_, head_, b, q); };
    std::stable_sort(ranked.begin(), ranked.end(), better);
    if (static_cast<int>(ranked.size()) < p_.top_k_of(head_)) return;
    if (!ranked.empty()) {
      decision.boundary = ranked.back();
      decision.boundary_effective = effective(p_, head_, ranked.back(), q);
    }
    ranked.push_back(t);
    std::stable_sort(ranked.begin(), ranked.end(), better);
    decision.evicted = ranked.back();
  }

  const Problem& p_;
  int head_;
  std::set<int> kept_;
  int slot_of_[kSteps] = {};
  int n_slots_ = 0;
};

bool same_bits(const RetainDecision& a, const RetainDecision& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

void check_against_brute_force(const History& history, const Problem& p) {
  for (int head = 0; head < kHeads; ++head) {
    BruteForce brute_force(p, head);
    for (int q = 0; q < kSteps; ++q) {
      const RetainDecision expected = brute_force.step(q);
      const RetainDecision& found = history.decisions[q * kHeads + head];
      CAPTURE(head, q, found.newcomer, found.boundary, found.evicted, found.slot, found.newcomer_effective,
              found.boundary_effective, expected.newcomer, expected.boundary, expected.evicted, expected.slot,
              expected.newcomer_effective, expected.boundary_effective);
      REQUIRE(same_bits(found, expected));
    }
    CHECK(history.n_slots[head] == brute_force.n_slots());
    const std::size_t capacity = history.slot_position.size() / kHeads;
    std::set<int> occupied(history.slot_position.begin() + head * capacity,
                           history.slot_position.begin() + (head + 1) * capacity);
    occupied.erase(-1);
    CHECK(occupied == brute_force.kept());
  }
}

Problem generated_problem() {
  Problem p;
  p.n_sink = GENERATE(0, 4);
  p.window = GENERATE(1, 16);
  p.top_k = GENERATE(0, 1, 8);
  p.decay_stride = GENERATE(1, 7);
  const auto kind = GENERATE(Scores::random, Scores::ties, Scores::all_equal, Scores::minus_infinity, Scores::rising,
                             Scores::falling);
  p.score = make_scores(kind);
  p.has_hints = p.decay_stride == 7;
  if (GENERATE(false, true)) p.log_gamma = {0.0f, -0.0123f, -0.7f};
  return p;
}

/// Heads of one layer that differ, and scores that meet their threshold exactly.
Problem mixed_heads_problem() {
  Problem p;
  p.rule = GENERATE(RetainRule::threshold, RetainRule::top_k);
  p.window = GENERATE(1, 16);
  p.strict = GENERATE(false, true);
  p.has_hints = GENERATE(false, true);
  p.threshold = 1;
  p.score = make_scores(Scores::ties);
  if (GENERATE(false, true)) p.head_threshold = {-INFINITY, 0.0f, INFINITY};
  p.head_top_k = {kSteps, 5, 0};
  return p;
}

/// What the heads of a hybrid are: full, local and one in between, by either rule.
void check_hybrid(Backend backend) {
  Problem p;
  p.rule = GENERATE(RetainRule::threshold, RetainRule::top_k);
  p.head_threshold = {-INFINITY, INFINITY, 0.5f};
  p.head_top_k = {1 << 30, 0, 8};
  p.score = make_scores(Scores::random);
  const History history = run(backend, p);
  CHECK(history.n_slots[0] == kSteps);
  CHECK(history.n_slots[1] == p.n_sink + p.window);
  CHECK(history.n_slots[2] > p.n_sink + p.window);
  CHECK(history.n_slots[2] < kSteps);
}

void check_strict(Backend backend) {
  Problem p;
  p.rule = RetainRule::threshold;
  p.threshold = 0.5f;
  p.score = make_scores(Scores::all_equal);  // 0.5
  CHECK(run(backend, p).n_slots == std::vector<std::int32_t>(kHeads, kSteps));
  p.strict = true;
  CHECK(run(backend, p).n_slots == std::vector<std::int32_t>(kHeads, p.n_sink + p.window));
  p.threshold = std::nextafter(0.5f, 0.0f);
  CHECK(run(backend, p).n_slots == std::vector<std::int32_t>(kHeads, kSteps));
  p.threshold = -INFINITY;
  p.strict = GENERATE(false, true);
  p.score.assign(p.score.size(), NAN);
  CHECK(run(backend, p).n_slots == std::vector<std::int32_t>(kHeads, p.n_sink + p.window));
}

#define CAPTURE_PROBLEM(p)                                                                                       \
  CAPTURE(static_cast<int>((p).rule), (p).n_sink, (p).window, (p).top_k, (p).decay_stride, (p).log_gamma.size(), \
          (p).score[0], (p).score[kHeads])

/// One crowded head: more slots than a block has threads, positions in no order.
Problem crowded(HostCache& cache, int n_slots) {
  cache = empty_cache({n_slots}, 64, n_slots / 16 + 1, DType::f32, 13);
  std::vector<int> positions(n_slots);
  std::iota(positions.begin(), positions.end(), 0);
  std::shuffle(positions.begin(), positions.end(), std::mt19937(14));
  const auto scores = random_normal(n_slots, 15);
  for (int slot = 0; slot < n_slots; ++slot) {
    cache.slot_position[slot] = positions[slot];
    cache.slot_priority[slot] = std::round(scores[slot] * 4);  // many ties, also for the last place
  }
  Problem p;
  p.top_k = n_slots - p.n_sink - p.window;
  return p;
}

RetainDecision run_crowded(Backend backend, const HostCache& cache, const Problem& p, float newcomer_score) {
  Memory memory(backend);
  const RetainStepArgs args = {.cache = upload(cache, memory),
                               .policy = {.rule = p.rule,
                                          .log_gamma = memory.put(std::vector<float>{-1e-4f}),
                                          .threshold = p.threshold,
                                          .n_sink = p.n_sink,
                                          .window = p.window,
                                          .top_k = p.top_k,  // the newcomer makes it one too many
                                          .decay_stride = 64},
                               .score = memory.put(std::vector<float>{newcomer_score}),
                               .position = cache.n_slots[0],
                               .decision = memory.put(std::vector<RetainDecision>(1)),
                               .slot = memory.put(std::vector<std::int32_t>(1, -9))};
  retain_step(args, {backend});
  const RetainDecision decision = memory.get(args.decision)[0];
  CHECK(memory.get(args.slot)[0] == decision.slot);
  return decision;
}

void check_crowded(Backend backend) {
  HostCache cache;
  const Problem p = crowded(cache, GENERATE(20, 31, 257, 3000));
  const int n_slots = cache.n_slots[0];
  const float newcomer_score = GENERATE(-1e3f, 1e3f);
  const RetainDecision found = run_crowded(backend, cache, p, newcomer_score);
  int weakest = -1;
  float least = INFINITY;
  for (int slot = 0; slot < n_slots; ++slot) {
    const int t = cache.slot_position[slot];
    if (t < p.n_sink || t >= n_slots - p.window) continue;
    const volatile float decay = static_cast<float>((n_slots - t) / 64) * -1e-4f;
    const float value = cache.slot_priority[slot] + decay;
    if (value < least || (value == least && t > cache.slot_position[weakest])) {
      least = value;
      weakest = slot;
    }
  }
  CAPTURE(n_slots, newcomer_score, weakest);
  CHECK(found.newcomer == n_slots - p.window);
  if (weakest < 0) {  // 20 slots: sinks and window alone
    CHECK(found.boundary == -1);
    CHECK(found.evicted == n_slots - p.window);
    return;
  }
  CHECK(found.boundary == cache.slot_position[weakest]);
  CHECK(found.boundary_effective == least);
  CHECK(found.evicted == (newcomer_score > 0 ? cache.slot_position[weakest] : n_slots - p.window));
}

/// Three slots that claim to hold the newcomer, which no cache has: a search finds the first or the last, a hint says the second.
void check_hint_is_taken(Backend backend) {
  HostCache cache = empty_cache({40}, 64, 3, DType::f32, 13);
  for (int slot = 0; slot < 40; ++slot) cache.slot_position[slot] = slot;
  for (const int slot : {3, 9, 21}) cache.slot_position[slot] = 24;
  const RetainRule rule = GENERATE(RetainRule::window, RetainRule::threshold);
  for (const int hint : {-1, 9, 10, 1000}) {
    CAPTURE(hint);
    Memory memory(backend);
    std::vector<std::int32_t> hints(16, -1);
    hints[24 % 16] = hint;
    auto* recent = memory.put(hints);
    const RetainStepArgs args = {.cache = upload(cache, memory),
                                 .policy = {.rule = rule, .threshold = 1, .window = 16, .recent_slot = recent},
                                 .score = memory.put(std::vector<float>{0}),
                                 .position = 40,
                                 .decision = memory.put(std::vector<RetainDecision>(1)),
                                 .slot = memory.put(std::vector<std::int32_t>(1, -9))};
    retain_step(args, {backend});
    const std::int32_t slot = memory.get(args.slot)[0];
    CHECK((slot == 9) == (hint == 9));
    CHECK(memory.get(args.decision)[0].evicted == 24);
    CHECK(memory.get(recent)[40 % 16] == slot);
  }
}

void check_nan(Backend backend) {
  Problem p;
  p.score = make_scores(Scores::random);
  for (std::size_t i = 0; i < p.score.size(); i += 3) p.score[i] = NAN;
  p.top_k = 4;
  const History with_nan = run(backend, p);
  for (float& score : p.score) score = std::isnan(score) ? -INFINITY : score;
  const History with_infinity = run(backend, p);
  for (std::size_t i = 0; i < with_nan.decisions.size(); ++i) {
    CAPTURE(i);
    REQUIRE(with_nan.decisions[i].evicted == with_infinity.decisions[i].evicted);
    REQUIRE(with_nan.decisions[i].slot == with_infinity.decisions[i].slot);
  }
}

}  // namespace

TEST_CASE("retain_step: the slot of a token that leaves the window is taken from a hint that is right",
          "[kernels][retain_step]") {
  check_hint_is_taken(Backend::cpu);
}

TEST_CASE("retain_step: on CUDA the slot of a token that leaves the window is taken from a hint that is right",
          "[kernels][retain_step][cuda]") {
  if (skip_without_device()) return;
  check_hint_is_taken(Backend::cuda);
}

TEST_CASE("retain_step: top_k decides as a sort of the kept tokens does", "[kernels][retain_step]") {
  const Problem p = generated_problem();
  CAPTURE_PROBLEM(p);
  check_against_brute_force(run(Backend::reference, p), p);
  check_against_brute_force(run(Backend::cpu, p), p);
}

TEST_CASE("retain_step: without decay the best top_k of all tokens so far are kept", "[kernels][retain_step]") {
  Problem p;
  p.score = make_scores(GENERATE(Scores::random, Scores::ties, Scores::falling));
  const History history = run(GENERATE(Backend::reference, Backend::cpu), p);
  for (int head = 0; head < kHeads; ++head) {
    std::vector<int> ranked(kSteps - p.window - p.n_sink);
    std::iota(ranked.begin(), ranked.end(), p.n_sink);  // eligible at the last query, oldest first
    std::stable_sort(ranked.begin(), ranked.end(),
                     [&](int a, int b) { return p.score[a * kHeads + head] > p.score[b * kHeads + head]; });
    std::set<int> expected(ranked.begin(), ranked.begin() + p.top_k);
    for (int t = 0; t < p.n_sink; ++t) expected.insert(t);
    for (int t = kSteps - p.window; t < kSteps; ++t) expected.insert(t);
    const std::size_t capacity = history.slot_position.size() / kHeads;
    std::set<int> kept(history.slot_position.begin() + head * capacity,
                       history.slot_position.begin() + (head + 1) * capacity);
    kept.erase(-1);
    CHECK(kept == expected);
    CHECK(history.n_slots[head] == p.n_sink + p.window + p.top_k);  // the loser's slot is used again
  }
}

TEST_CASE("retain_step: the other rules do what they say", "[kernels][retain_step]") {
  Problem p;
  p.rule = GENERATE(RetainRule::keep_all, RetainRule::window, RetainRule::threshold);
  p.n_sink = GENERATE(0, 4);
  p.window = GENERATE(1, 16);
  p.score = make_scores(GENERATE(Scores::random, Scores::minus_infinity));
  p.log_gamma = {-0.1f, 0.0f, -0.2f};
  CAPTURE_PROBLEM(p);
  check_against_brute_force(run(Backend::reference, p), p);
  check_against_brute_force(run(Backend::cpu, p), p);
}

TEST_CASE("retain_step: every head goes by its own threshold and top_k", "[kernels][retain_step]") {
  const Problem p = mixed_heads_problem();
  CAPTURE_PROBLEM(p);
  check_against_brute_force(run(Backend::reference, p), p);
  check_against_brute_force(run(Backend::cpu, p), p);
}

TEST_CASE("retain_step: a full head keeps everything beside a local one that keeps its window",
          "[kernels][retain_step]") {
  check_hybrid(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("retain_step: a strict threshold turns away who meets it exactly, and any threshold a NaN",
          "[kernels][retain_step]") {
  check_strict(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("retain_step: keep_all and window need neither scores nor priorities", "[kernels][retain_step]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  HostCache cache = empty_cache({16}, 64, 1, DType::f32, 1);
  for (int slot = 0; slot < 16; ++slot) cache.slot_position[slot] = slot;
  Memory memory(backend);
  RetainDecision decision;
  std::int32_t slot = -9;
  RetainStepArgs args = {.cache = upload(cache, memory),
                         .policy = {.rule = RetainRule::window, .n_sink = 4, .window = 8, .decay_stride = 1},
                         .position = 16,
                         .decision = &decision,
                         .slot = &slot};
  args.cache.slot_priority = nullptr;
  retain_step(args, {backend});
  CHECK(decision.evicted == 8);
  CHECK(slot == 8);
}

TEST_CASE("retain_step: finds the weakest among many slots in any order", "[kernels][retain_step]") {
  check_crowded(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("retain_step: a score that is not a number ranks as minus infinity", "[kernels][retain_step]") {
  check_nan(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("retain_step: on CUDA a NaN is the least of all scores", "[kernels][retain_step][cuda]") {
  if (skip_without_device()) return;
  check_nan(Backend::cuda);
}

TEST_CASE("retain_step: CUDA decides as a sort of the kept tokens does", "[kernels][retain_step][cuda]") {
  if (skip_without_device()) return;
  const Problem p = generated_problem();
  CAPTURE_PROBLEM(p);
  check_against_brute_force(run(Backend::cuda, p), p);
}

TEST_CASE("retain_step: on CUDA every head goes by its own threshold and top_k", "[kernels][retain_step][cuda]") {
  if (skip_without_device()) return;
  SECTION("as a sort does") {
    const Problem p = mixed_heads_problem();
    CAPTURE_PROBLEM(p);
    check_against_brute_force(run(Backend::cuda, p), p);
  }
  SECTION("full and local") { check_hybrid(Backend::cuda); }
  SECTION("strict or not") { check_strict(Backend::cuda); }
}

TEST_CASE("retain_step: CUDA finds the weakest among many slots in any order", "[kernels][retain_step][cuda]") {
  if (skip_without_device()) return;
  check_crowded(Backend::cuda);
}

TEST_CASE("retain_step: CPU and CUDA take the same decisions, bit for bit", "[kernels][retain_step][cuda]") {
  if (skip_without_device()) return;
  Problem p;
  p.rule = GENERATE(RetainRule::keep_all, RetainRule::window, RetainRule::threshold, RetainRule::top_k);
  p.decay_stride = GENERATE(1, 3);
  if (kShort && p.decay_stride == 1) return;
  p.score = make_scores(GENERATE(Scores::random, Scores::ties, Scores::minus_infinity));
  // Products that an fma would round otherwise.
  p.log_gamma = {-1.0f / 3, -1e-3f / 7, -0.1f};
  CAPTURE_PROBLEM(p);
  const History on_cpu = run(Backend::cpu, p);
  const History on_cuda = run(Backend::cuda, p);
  for (std::size_t i = 0; i < on_cpu.decisions.size(); ++i) {
    CAPTURE(i);
    REQUIRE(same_bits(on_cpu.decisions[i], on_cuda.decisions[i]));
  }
  CHECK(on_cpu.n_slots == on_cuda.n_slots);
  CHECK(on_cpu.slot_position == on_cuda.slot_position);
}
