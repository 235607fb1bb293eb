// Rule `least` of retain_step, with priorities that change between the steps as an attention method changes them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>

#include "kernels/retain_step.h"
#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

/// Under a sanitizer a step takes 30 ms and more: fewer, of which the last still find every head full.
const int kSteps = kShort ? 24 : 60;
constexpr int kHeads = 3;

/// What a method does with the priorities after each step.
enum class Method { none, latest, sum, ties, nan };

struct Problem {
  int n_sink = 4, window = 8, top_k = 6, protect = 0;
  std::vector<std::int32_t> head_top_k;  // [kHeads] or empty
  Method method = Method::latest;

  int capacity(int head) const { return n_sink + window + (head_top_k.empty() ? top_k : head_top_k[head]); }
};

/// The priority of token t after query q, from what it was.
float priority_after(Method method, int head, int t, int q, float before) {
  const auto mass = static_cast<float>((t * 37 + q * 101 + head * 11) % 64) / 64;
  switch (method) {
    case Method::none:
      return before;
    case Method::latest:
      return mass;
    case Method::sum:
      return before + mass;
    case Method::ties:
      return std::round(mass * 2);
    case Method::nan:
      return t % 3 == 0 ? NAN : (t % 3 == 1 ? -INFINITY : mass);
  }
  return 0;
}

/// One step on a cache that lives on the host; writes q into its slots as append does.
std::vector<RetainDecision> step(Backend backend, const Problem& p, HostCache& cache, int q) {
  Memory memory(backend);
  const RetainStepArgs args = {
      .cache = upload(cache, memory),
      .policy = {.rule = RetainRule::least,
                 .log_gamma = memory.put(std::vector<float>(kHeads, -1.0f)),  // not asked for
                 .n_sink = p.n_sink,
                 .window = p.window,
                 .top_k = p.top_k,
                 .head_top_k = p.head_top_k.empty() ? nullptr : memory.put(p.head_top_k),
                 .protect = p.protect,
                 .decay_stride = 1},
      .position = q,
      .decision = memory.put(std::vector<RetainDecision>(cache.n_kv_heads, RetainDecision{-9, -9, 9, 9, 9, -9, -9})),
      .slot = memory.put(std::vector<std::int32_t>(cache.n_kv_heads, -9))};
  retain_step(args, {backend});
  const std::vector<RetainDecision> decisions = memory.get(args.decision);
  const std::vector<std::int32_t> slots = memory.get(args.slot);
  cache.n_slots = memory.get(args.cache.n_slots);
  cache.slot_priority = memory.get(args.cache.slot_priority);
  for (int head = 0; head < cache.n_kv_heads; ++head) {
    REQUIRE(slots[head] == decisions[head].slot);
    REQUIRE(slots[head] >= 0);
    REQUIRE(slots[head] < cache.n_slots[head]);
    REQUIRE(cache.slot_priority[head * cache.capacity() + slots[head]] == 0);
    cache.slot_position[head * cache.capacity() + slots[head]] = q;
  }
  return decisions;
}

/// The definition without a cache: what each kept token's priority is, and where it is.
class BruteForce {
 public:
  BruteForce(const Problem& p, int head) : p_(p), head_(head) {}

  RetainDecision step(int q) {
    RetainDecision decision = {.newcomer = -1, .boundary = -1, .evicted = -1, .slot = -1};
    if (static_cast<int>(kept_.size()) > p_.capacity(head_)) {
      const int gone = least(q), next = least(q, gone);
      decision = {.newcomer = q - 1,
                  .boundary = gone,
                  .newcomer_score = kept_.at(q - 1).priority,
                  .newcomer_effective = next < 0 ? NAN : compared(kept_.at(next).priority),
                  .boundary_effective = kept_.at(gone).priority,
                  .evicted = gone,
                  .slot = kept_.at(gone).slot};
      kept_.erase(gone);
    } else {
      decision.slot = static_cast<int>(kept_.size());
    }
    kept_[q] = {0, decision.slot};
    return decision;
  }
  void attend(int q) {
    for (auto& [t, token] : kept_) token.priority = priority_after(p_.method, head_, t, q, token.priority);
  }
  int size() const { return static_cast<int>(kept_.size()); }

 private:
  struct Token {
    float priority;
    std::int32_t slot;
  };

  static float compared(float priority) { return std::isnan(priority) ? -INFINITY : priority; }

  int least(int q, int besides = -1) const {
    int found = -1;
    float lowest = INFINITY;
    for (const auto& [t, token] : kept_) {  // oldest first, so that of equal ones the newest is found last
      const float priority = compared(token.priority);
      if (t < p_.n_sink || t >= q - p_.protect || t == besides || priority > lowest) continue;
      lowest = priority;
      found = t;
    }
    return found;
  }

  const Problem& p_;
  int head_;
  std::map<int, Token> kept_;
};

void attend(const Problem& p, HostCache& cache, int q) {
  for (int head = 0; head < kHeads; ++head) {
    for (int slot = 0; slot < cache.n_slots[head]; ++slot) {
      const int i = head * cache.capacity() + slot;
      cache.slot_priority[i] = priority_after(p.method, head, cache.slot_position[i], q, cache.slot_priority[i]);
    }
  }
}

void check_against_brute_force(Backend backend, const Problem& p) {
  HostCache cache = empty_cache({kSteps, kSteps, kSteps}, 1, 4, DType::f32, 21);
  cache.n_slots.assign(kHeads, 0);
  std::vector<BruteForce> brute_force;
  for (int head = 0; head < kHeads; ++head) brute_force.emplace_back(p, head);
  for (int q = 0; q < kSteps; ++q) {
    const std::vector<RetainDecision> found = step(backend, p, cache, q);
    for (int head = 0; head < kHeads; ++head) {
      const RetainDecision expected = brute_force[head].step(q);
      CAPTURE(head, q, found[head].newcomer, found[head].boundary, found[head].evicted, found[head].slot,
              found[head].boundary_effective, expected.newcomer, expected.boundary, expected.slot,
              expected.boundary_effective);
      REQUIRE(std::memcmp(&found[head], &expected, sizeof(expected)) == 0);
      REQUIRE(cache.n_slots[head] == brute_force[head].size());
      brute_force[head].attend(q);
    }
    attend(p, cache, q);
  }
  for (int head = 0; head < kHeads; ++head) CHECK(cache.n_slots[head] == std::min(kSteps, p.capacity(head) + 1));
}

void check_methods(Backend backend) {
  Problem p;
  p.n_sink = GENERATE(0, 4);
  p.window = GENERATE(1, 8);
  p.top_k = GENERATE(0, 6);
  p.method = GENERATE(Method::none, Method::latest, Method::sum, Method::ties, Method::nan);
  p.protect = GENERATE_COPY(0, 1, p.window + p.top_k);
  if (kShort && (p.n_sink == 0 || p.top_k == 0)) return;
  CAPTURE(p.n_sink, p.window, p.top_k, p.protect, static_cast<int>(p.method));
  check_against_brute_force(backend, p);
}

void check_heads(Backend backend) {
  Problem p;
  p.head_top_k = {0, 1 << 30, 7};
  p.protect = p.window;
  p.method = GENERATE(Method::latest, Method::sum);
  check_against_brute_force(backend, p);
}

/// More slots than a block has threads, positions in no order, many ties for the last place.
void check_crowded(Backend backend) {
  const int n_slots = GENERATE(33, 257, 1500);
  HostCache cache = empty_cache({n_slots}, 1, n_slots / 16 + 1, DType::f32, 22);
  std::vector<int> positions(n_slots);
  std::iota(positions.begin(), positions.end(), 0);
  std::shuffle(positions.begin(), positions.end(), std::mt19937(23));
  const auto priorities = random_normal(n_slots, 24);
  int least = -1;
  Problem p = {.n_sink = 4, .window = 8, .top_k = n_slots - 13, .protect = 8};
  for (int slot = 0; slot < n_slots; ++slot) {
    cache.slot_position[slot] = positions[slot];
    cache.slot_priority[slot] = std::round(priorities[slot] * 4);
    if (positions[slot] < 4 || positions[slot] >= n_slots - 8) continue;
    const auto of = [&](int i) { return std::pair(cache.slot_priority[i], -positions[i]); };
    if (least < 0 || of(slot) < of(least)) least = slot;
  }
  float next = INFINITY;
  for (int slot = 0; slot < n_slots; ++slot) {
    if (positions[slot] < 4 || positions[slot] >= n_slots - 8 || slot == least) continue;
    next = std::min(next, cache.slot_priority[slot]);
  }
  const RetainDecision found = step(backend, p, cache, n_slots)[0];
  CAPTURE(n_slots, least);
  CHECK(found.newcomer_effective == next);
  CHECK(found.slot == least);
  CHECK(found.evicted == positions[least]);
  CHECK(found.newcomer == n_slots - 1);
}

}  // namespace

TEST_CASE("retain_step: of a head that is full the token of least priority leaves, and the next least is named",
          "[kernels][retain_step]") {
  check_methods(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("retain_step: by priority every head has its own capacity", "[kernels][retain_step]") {
  check_heads(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("retain_step: finds the least priority among many slots in any order", "[kernels][retain_step]") {
  check_crowded(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("retain_step: as many tokens as there are cannot all be protected", "[kernels][retain_step][validate]") {
  std::int32_t some = 0;
  float priority = 0;
  RetainDecision decision;
  RetainStepArgs args = {
      .cache = {.slot_position = &some,
                .n_slots = &some,
                .slot_priority = &priority,
                .n_kv_heads = 1,
                .page_size = 16,
                .max_pages = 1},
      .policy = {.rule = RetainRule::least, .window = 4, .top_k = 3, .protect = 8, .decay_stride = 1},
      .decision = &decision,
      .slot = &some};
  CHECK_THROWS_WITH(retain_step(args, {}), "retain_step: protect is 8; expected 0 ... 7");
  args.policy.protect = 7;
  args.policy.head_top_k = &some;
  args.policy.top_k = 0;  // the least of them
  CHECK_THROWS_WITH(retain_step(args, {Backend::reference}), "retain_step: protect is 7; expected 0 ... 4");
  args.policy.protect = 4;
  args.cache.slot_priority = nullptr;
  CHECK_THROWS_WITH(retain_step(args, {}), "retain_step: cache.slot_priority is null");
}

TEST_CASE("retain_step: on CUDA of a head that is full the token of least priority leaves",
          "[kernels][retain_step][cuda]") {
  if (skip_without_device()) return;
  SECTION("whatever the method") { check_methods(Backend::cuda); }
  SECTION("whatever the heads' capacities") { check_heads(Backend::cuda); }
  SECTION("among many slots") { check_crowded(Backend::cuda); }
}
