#include "kernels/admit_step.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "kernels/append.h"
#include "kernels/retain_step.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

/// Under compute-sanitizer fewer steps, of which the last still let tokens go by sinks, window and top_k.
const int kSteps = kShort ? 14 : 70, kWideWindow = kShort ? 10 : 64;
constexpr int kHeads = 2;  // KV heads
constexpr int kMaxPages = 6;
constexpr float kEps = 1e-6f;

struct Problem {
  DType dtype = DType::f32;
  int head_dim = 64, group = 2;
  bool has_norm = true, has_scorer = false;
  RetainRule rule = RetainRule::top_k;
  int n_sink = kShort ? 2 : 4, window = kShort ? 5 : 16, top_k = kShort ? 3 : 8;
  int decay_stride = 3, protect = 0, zero_channel = -1;
  bool has_ring = false, strict = false, guarded = false;
  bool softmax_map = false, head_norm = false;  // of the scorer
  int delay = 0;  // of the scores, with a ring; without one they are those of the token that leaves
  float threshold = 0.1f, attention_scaling = 1, soft_cap = 15;
  std::vector<float> qkv;                       // [kSteps, (n_heads + 2 kHeads) * head_dim]
  std::vector<float> q_norm, k_norm;            // [head_dim]
  std::vector<float> inv_freq;                  // [head_dim / 2]
  std::vector<float> log_gamma;                 // [kHeads] or empty
  std::vector<float> head_threshold;            // [kHeads] or empty
  std::vector<std::int32_t> head_top_k;         // [kHeads] or empty
  std::vector<float> score;                     // [kSteps, kHeads] of token step - score_delay(); without a scorer
  std::vector<float> weight, bias, read, norm;  // of the scorer

  int n_heads() const { return kHeads * group; }
  float norm_offset() const { return head_dim == 128 || head_dim == 256 ? 1 : 0; }
  int columns() const { return (softmax_map ? 3 : 2) * head_dim + 3; }  // of the scorer's weights
  int score_delay() const { return has_ring ? delay : window; }
  int row() const { return (n_heads() + 2 * kHeads) * head_dim; }
};

/// The problem with random numbers for the sizes that it has.
Problem filled(Problem p) {
  const int d = p.head_dim;
  p.qkv = rounded(random_normal(static_cast<std::size_t>(kSteps) * p.row(), 101), p.dtype);
  p.q_norm = rounded(random_normal(d, 102), p.dtype);
  p.k_norm = rounded(random_normal(d, 103), p.dtype);
  for (int i = 0; i < d / 2; ++i) p.inv_freq.push_back(std::pow(10'000.0f, -2.0f * i / d));
  p.score = random_normal(kSteps * kHeads, 104);
  for (float& score : p.score) score = std::round(4 * score) / 4;  // ties
  p.weight = random_normal(static_cast<std::size_t>(kHeads) * 2 * d * p.columns(), 105, 1 / std::sqrt(2.0f * d));
  p.bias = random_normal(kHeads * 3, 106);
  p.read = random_normal(kHeads * d, 107);
  p.norm = random_normal(kHeads * d, 108);
  return p;
}

struct Result {
  std::vector<float> q;                  // [kSteps, n_heads, head_dim]
  std::vector<float> k, v;               // [kSteps, kHeads, head_dim], as they lay in their slots after each step
  std::vector<float> score;              // [kSteps, kHeads]
  std::vector<RetainDecision> decision;  // [kSteps, kHeads]
  std::vector<std::int32_t> n_slots, slot_position;
  std::vector<float> memory;  // of a scorer, as the last step left it: c, z, m
};

HostCache empty(const Problem& p, DType dtype) {
  const int n_slots = kMaxPages * 16;
  HostCache cache = empty_cache(std::vector<int>(kHeads, n_slots), p.head_dim, kMaxPages, dtype, 11);
  cache.n_slots.assign(kHeads, 0);
  return cache;
}

MlstmScorerView put_scorer(const Problem& p, Memory& memory) {
  const std::size_t d = p.head_dim, delay = p.score_delay();
  return {.project = memory.put(p.weight),
          .bias = memory.put(p.bias),
          .read = memory.put(p.read),
          .norm = p.head_norm ? memory.put(p.norm) : nullptr,
          .c = memory.put(std::vector<float>(kHeads * d * d, 0.0f)),
          .z = memory.put(std::vector<float>(kHeads * d, 0.0f)),
          .m = memory.put(std::vector<float>(kHeads, -INFINITY)),
          .queries = delay > 0 ? memory.put(poison(kHeads * delay * d)) : nullptr,
          .direct = delay > 0 ? memory.put(poison(kHeads * delay)) : nullptr,
          .delay = p.score_delay(),
          .soft_cap = p.soft_cap,
          .norm_eps = 1e-3f,  // so large that a test sees it
          .guarded = p.guarded,
          .softmax_map = p.softmax_map};
}

/// A problem in the memory of a back end, and what its steps have left.
struct Row {
  const Problem& p;
  DType dtype;
  HostCache cache;
  AdmitStepArgs args;  // of step 0
  Result result = {};

  Row(const Problem& problem, DType type, Memory& memory) : p(problem), dtype(type), cache(empty(p, dtype)) {
    std::vector<std::int32_t> positions(kSteps);
    for (int i = 0; i < kSteps; ++i) positions[i] = i;
    const std::vector<RetainDecision> undecided(kSteps * kHeads, RetainDecision{-9, -9, 9, 9, 9, -9, -9});
    args = {.cache = upload(cache, memory),
            .qkv = memory.put(pack(p.qkv, dtype)),
            .q_norm = p.has_norm ? memory.put(pack(p.q_norm, dtype)) : nullptr,
            .k_norm = p.has_norm ? memory.put(pack(p.k_norm, dtype)) : nullptr,
            .inv_freq = memory.put(p.inv_freq),
            .position = memory.put(positions),
            .q = memory.put(poison(kSteps * q_row(), dtype)),
            .n_heads = p.n_heads(),
            .eps = kEps,
            .norm_offset = p.norm_offset(),
            .attention_scaling = p.attention_scaling,
            .zero_channel = p.zero_channel,
            .score = memory.put(p.has_scorer ? std::vector<float>(p.score.size(), 9.0f) : p.score),
            .score_ring = p.has_ring ? memory.put(poison(kHeads * (p.window + 1))) : nullptr,
            .score_delay = p.delay,
            .policy = {.rule = p.rule,
                       .log_gamma = p.log_gamma.empty() ? nullptr : memory.put(p.log_gamma),
                       .threshold = p.threshold,
                       .head_threshold = p.head_threshold.empty() ? nullptr : memory.put(p.head_threshold),
                       .strict = p.strict,
                       .n_sink = p.n_sink,
                       .window = p.window,
                       .top_k = p.top_k,
                       .head_top_k = p.head_top_k.empty() ? nullptr : memory.put(p.head_top_k),
                       .protect = p.protect,
                       .decay_stride = p.decay_stride},
            .decision = memory.put(undecided)};
    if (p.has_scorer) args.scorer = put_scorer(p, memory);
  }

  std::size_t q_row() const { return static_cast<std::size_t>(p.n_heads()) * p.head_dim; }

  AdmitStepArgs at_step(int t) const {
    AdmitStepArgs step = args;
    const std::size_t element = size_of(dtype);
    step.qkv = static_cast<const std::byte*>(args.qkv) + t * p.row() * element;
    step.position = args.position + t;
    step.q = static_cast<std::byte*>(args.q) + t * q_row() * element;
    step.score = args.score + t * kHeads;
    step.decision = args.decision + t * kHeads;
    return step;
  }

  void note_step(int t, const Memory& memory) {
    const auto decided = memory.get(args.decision);
    const auto keys = unpack(memory.get(static_cast<const std::byte*>(args.cache.k_pool)), dtype);
    const auto values = unpack(memory.get(static_cast<const std::byte*>(args.cache.v_pool)), dtype);
    for (int head = 0; head < kHeads; ++head) {
      const std::int32_t slot = decided[t * kHeads + head].slot;
      REQUIRE(slot >= 0);
      REQUIRE(slot < kMaxPages * 16);
      const auto at = static_cast<std::ptrdiff_t>(cache.row(head, slot));
      result.k.insert(result.k.end(), keys.begin() + at, keys.begin() + at + p.head_dim);
      result.v.insert(result.v.end(), values.begin() + at, values.begin() + at + p.head_dim);
    }
  }

  void end(const Memory& memory) {
    result.q = unpack(memory.get(static_cast<const std::byte*>(args.q)), dtype);
    result.score = memory.get(args.score);
    result.decision = memory.get(args.decision);
    result.n_slots = memory.get(args.cache.n_slots);
    result.slot_position = memory.get(args.cache.slot_position);
    if (!p.has_scorer) return;
    for (const float* part : {args.scorer.c, args.scorer.z, args.scorer.m}) {
      const std::vector<float> numbers = memory.get(part);
      result.memory.insert(result.memory.end(), numbers.begin(), numbers.end());
    }
  }
};

/// Steps of all problems together, of which problem i comes in at step joins[i]; all at the first step if `joins` is empty.
/// `dtype` may be f32 for bf16 problems: the same numbers, nothing rounded. Equal weights of a scorer lie in one place, as
/// those of sequences of one model do.
std::vector<Result> run_rows(Backend backend, const std::vector<Problem>& problems, DType dtype,
                             const std::vector<int>& joins = {}) {
  Memory memory(backend);
  std::vector<Row> rows;
  rows.reserve(problems.size());
  for (const Problem& p : problems) {
    rows.emplace_back(p, dtype, memory);
    const auto same = std::find_if(rows.begin(), rows.end(),
                                   [&](const Row& row) { return row.p.has_scorer && row.p.weight == p.weight; });
    if (p.has_scorer) rows.back().args.scorer.project = same->args.scorer.project;
  }
  const int last = joins.empty() ? 0 : *std::max_element(joins.begin(), joins.end());
  for (int t = 0; t < kSteps + last; ++t) {
    std::vector<AdmitStepArgs> step;
    std::vector<std::pair<Row*, int>> present;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const int own = joins.empty() ? t : t - joins[i];
      if (own < 0 || own >= kSteps) continue;
      present.push_back({&rows[i], own});
      step.push_back(rows[i].at_step(own));
    }
    admit_step(step, {backend});
    for (const auto& [row, own] : present) row->note_step(own, memory);
  }
  std::vector<Result> results;
  for (Row& row : rows) {
    row.end(memory);
    results.push_back(std::move(row.result));
  }
  return results;
}

Result run(Backend backend, const Problem& p, DType dtype) { return run_rows(backend, {p}, dtype).front(); }

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

void check_same(const Result& a, const Result& b) {
  CHECK(same_bits(a.q, b.q));
  CHECK(same_bits(a.k, b.k));
  CHECK(same_bits(a.v, b.v));
  CHECK(same_bits(a.score, b.score));
  CHECK(same_bits(a.decision, b.decision));
  CHECK(same_bits(a.memory, b.memory));
  CHECK(a.n_slots == b.n_slots);
  CHECK(a.slot_position == b.slot_position);
}

/// Policies of every rule, with and without a scorer of their own, beside one another.
void check_rows(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  std::vector<Problem> problems;
  for (const RetainRule rule : {RetainRule::keep_all, RetainRule::window, RetainRule::threshold, RetainRule::top_k}) {
    for (const bool has_scorer : {false, true}) {
      Problem p = {.dtype = dtype, .has_scorer = has_scorer, .rule = rule};
      p.window = 12 + static_cast<int>(problems.size());
      problems.push_back(filled(p));
    }
  }
  for (float& weight : problems.back().weight) weight = -weight;  // another model's
  const std::vector<Result> together = run_rows(backend, problems, dtype);
  for (std::size_t row = 0; row < problems.size(); ++row) {
    CAPTURE(row, static_cast<int>(dtype));
    check_same(together[row], run(backend, problems[row], dtype));
  }
}

/// Sequences of one model with a scorer: different tokens, some that wait for their score and some that do not, and each comes
/// in at another step, so that positions differ and a launch has fewer rows at the start and at the end.
void check_batches(Backend backend, const std::vector<int>& sizes) {
  Problem p = {.head_dim = GENERATE(64, 80, 128, 256), .has_scorer = true};
  p.head_norm = GENERATE(false, true);
  p.softmax_map = p.head_norm && p.head_dim == 128;
  if (left_out(3)) return;
  p.dtype = p.head_dim == 80 ? DType::f32 : DType::bf16;
  std::vector<Problem> kinds;
  for (int kind = 0; kind < 6; ++kind) {
    p.has_ring = kind % 3 != 0;
    p.delay = kind % 3 == 1 ? 0 : 5;
    p.guarded = kind % 2 == 1;
    kinds.push_back(filled(p));
    for (float& x : kinds.back().qkv) x *= static_cast<float>(1 << kind) / 4;  // exact in any dtype
  }
  std::vector<Result> alone;
  for (const Problem& kind : kinds) alone.push_back(run(backend, kind, p.dtype));
  for (const int size : sizes) {
    std::vector<Problem> problems;
    std::vector<int> joins;
    for (int i = 0; i < size; ++i) {
      problems.push_back(kinds[i % kinds.size()]);
      joins.push_back(i * 5 % 7);
    }
    const std::vector<Result> together = run_rows(backend, problems, p.dtype, joins);
    for (int row = 0; row < size; ++row) {
      CAPTURE(size, row, p.head_dim);
      check_same(together[row], alone[row % kinds.size()]);
    }
  }
}

/// Queries (or keys) of all steps by rms_norm and rope of the CPU, each of which rounds. Channel `zero` of the first
/// of every group is 0 before and after.
std::vector<float> naive_rotated(const Problem& p, int first_head, int n_heads, const std::vector<float>& norm,
                                 int zero) {
  std::vector<float> out;
  const auto clear = [&](std::vector<std::byte>& x) {
    const std::size_t element = size_of(p.dtype);
    for (int head = 0; head < n_heads && zero >= 0; head += p.group) {
      std::fill_n(x.begin() + static_cast<std::ptrdiff_t>((head * p.head_dim + zero) * element), element, std::byte{0});
    }
  };
  for (std::int32_t t = 0; t < kSteps; ++t) {
    const auto begin = p.qkv.begin() + t * p.row() + first_head * p.head_dim;
    std::vector<std::byte> x = pack({begin, begin + n_heads * p.head_dim}, p.dtype);
    const auto weight = pack(norm, p.dtype);
    if (p.has_norm) {
      rms_norm({.x = x.data(),
                .weight = weight.data(),
                .out = x.data(),
                .n_rows = n_heads,
                .x_stride = p.head_dim,
                .dim = p.head_dim,
                .eps = kEps,
                .weight_offset = p.norm_offset(),
                .dtype = p.dtype},
               {});
    }
    clear(x);
    rope({.x = x.data(),
          .positions = &t,
          .inv_freq = p.inv_freq.data(),
          .n_tokens = 1,
          .n_heads = n_heads,
          .head_dim = p.head_dim,
          .attention_scaling = p.attention_scaling,
          .dtype = p.dtype},
         {});
    clear(x);
    const auto rotated = unpack(x, p.dtype);
    out.insert(out.end(), rotated.begin(), rotated.end());
  }
  return out;
}

/// The score of the newcomer of step t as the steps before made it; no NaN where nobody asks.
const float* newcomer_score(const Problem& p, const Result& found, int t) {
  return found.score.data() + std::max(0, t - p.window + p.score_delay()) * kHeads;
}

/// What retain_step and append do with the scores of `found`, on a cache of their own.
Result contest(const Problem& p, const Result& found) {
  Memory memory(Backend::reference);
  const SlotCacheView view = upload(empty(p, p.dtype), memory);
  Result result;
  result.decision.resize(kSteps * kHeads);
  std::vector<std::int32_t> slot(kHeads);
  const std::vector<std::byte> row(static_cast<std::size_t>(kHeads) * p.head_dim * 4);
  for (int t = 0; t < kSteps; ++t) {
    retain_step({.cache = view,
                 .policy = {.rule = p.rule,
                            .log_gamma = p.log_gamma.empty() ? nullptr : p.log_gamma.data(),
                            .threshold = p.threshold,
                            .head_threshold = p.head_threshold.empty() ? nullptr : p.head_threshold.data(),
                            .strict = p.strict,
                            .n_sink = p.n_sink,
                            .window = p.window,
                            .top_k = p.top_k,
                            .head_top_k = p.head_top_k.empty() ? nullptr : p.head_top_k.data(),
                            .protect = p.protect,
                            .decay_stride = p.decay_stride},
                 .score = newcomer_score(p, found, t),
                 .position = t,
                 .decision = result.decision.data() + t * kHeads,
                 .slot = slot.data()},
                {Backend::reference});
    append({.cache = view, .k = row.data(), .v = row.data(), .slot = slot.data(), .position = &t, .n_tokens = 1},
           {Backend::reference});
  }
  result.n_slots = memory.get(view.n_slots);
  result.slot_position = memory.get(view.slot_position);
  return result;
}

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void check_decisions(const Problem& p, const Result& found) {
  const Result expected = contest(p, found);
  for (int i = 0; i < kSteps * kHeads; ++i) {
    const RetainDecision& a = found.decision[i];
    const RetainDecision& b = expected.decision[i];
    CAPTURE(i / kHeads, i % kHeads, a.newcomer, a.boundary, a.evicted, a.slot, a.newcomer_effective, b.newcomer,
            b.boundary, b.evicted, b.slot, b.newcomer_effective);
    REQUIRE((a.newcomer == b.newcomer && a.boundary == b.boundary && a.evicted == b.evicted && a.slot == b.slot));
    REQUIRE(same(a.newcomer_score, b.newcomer_score));
    REQUIRE(same(a.newcomer_effective, b.newcomer_effective));
    REQUIRE(same(a.boundary_effective, b.boundary_effective));
  }
  CHECK(found.n_slots == expected.n_slots);
  CHECK(found.slot_position == expected.slot_position);
}

void check_rows(const Problem& p, const Result& found, const Result& expected) {
  const double q_error = max_error(naive_rotated(p, 0, p.n_heads(), p.q_norm, p.zero_channel), expected.q);
  const double k_error = max_error(naive_rotated(p, p.n_heads(), kHeads, p.k_norm, -1), expected.k);
  CHECK(max_error(found.q, expected.q) <= allowed_error(q_error, expected.q, p.dtype));
  CHECK(max_error(found.k, expected.k) <= allowed_error(k_error, expected.k, p.dtype));
  CHECK(found.v == expected.v);
}

void check_scores(const Problem& p, const Result& found, const Result& expected) {
  // A score is a sum of head_dim terms near 1 read from a memory that up to 70 steps have rounded. What rounding the
  // keys to dtype does to it, the reference's own run in that dtype shows.
  const Result rounded = run(Backend::reference, p, p.dtype);
  double error = 0, rounding = 0, largest = 0;
  for (int i = 0; i < kSteps * kHeads; ++i) {
    CAPTURE(i / kHeads, i % kHeads);
    REQUIRE(std::isnan(found.score[i]) == (i / kHeads < p.score_delay()));
    if (std::isnan(found.score[i])) continue;
    largest = std::max(largest, std::abs(static_cast<double>(expected.score[i])));
    error = std::max(error, std::abs(static_cast<double>(found.score[i]) - expected.score[i]));
    rounding = std::max(rounding, std::abs(static_cast<double>(rounded.score[i]) - expected.score[i]));
  }
  CHECK(largest > 0.5);
  CHECK(error <= 2 * rounding + 1e-4 * largest);
}

void check_problem(Backend backend, const Problem& p) {
  if (left_out(5)) return;
  CAPTURE(static_cast<int>(p.dtype), p.head_dim, p.group, p.has_norm, p.has_scorer, static_cast<int>(p.rule), p.n_sink,
          p.window, p.top_k, p.decay_stride, p.log_gamma.size());
  const Result found = run(backend, p, p.dtype);
  const Result expected = run(Backend::reference, p, DType::f32);
  check_rows(p, found, expected);
  if (p.has_scorer) check_scores(p, found, expected);
  check_decisions(p, found);
}

void check_shapes(Backend backend) {
  Problem p;
  p.dtype = GENERATE(DType::f32, DType::bf16);
  p.head_dim = GENERATE(64, 80, 96, 128, 192, 256);
  p.group = GENERATE(1, 2, 8);
  p.has_norm = p.group != 2 || p.head_dim == 64;
  p.has_scorer = p.group != 8;
  p.attention_scaling = p.head_dim == 96 ? 1.2f : 1.0f;
  p.soft_cap = p.head_dim == 80 ? 0.0f : 15.0f;
  p.log_gamma = {0.0f, -0.02f};
  check_problem(backend, filled(p));
}

void check_rules(Backend backend) {
  Problem p;
  p.rule =
      GENERATE(RetainRule::keep_all, RetainRule::window, RetainRule::threshold, RetainRule::top_k, RetainRule::least);
  p.has_scorer = GENERATE(false, true);
  p.n_sink = GENERATE(0, 4);
  p.window = GENERATE(1, 7, kWideWindow);
  p.top_k = GENERATE(0, 5);
  const bool decays = GENERATE(false, true);
  const bool ranks = p.rule == RetainRule::top_k || p.rule == RetainRule::least;
  if (!ranks && (p.top_k > 0 || decays)) return;  // the other rules read neither
  if (kShort && (p.n_sink == 0 || p.top_k == 0 || !decays)) return;
  if (decays) p.log_gamma = {-0.0123f, -0.7f};
  check_problem(backend, filled(p));
}

/// Every head by its own rule, a strict threshold met exactly, and protected tokens.
void check_heads(Backend backend) {
  Problem p;
  p.rule = GENERATE(RetainRule::threshold, RetainRule::top_k, RetainRule::least);
  p.strict = GENERATE(false, true);
  p.protect = p.window / 2;
  p.head_threshold = {0.25f, -INFINITY};
  p.head_top_k = {3, 1 << 30};
  check_problem(backend, filled(p));
}

/// A score waits for its token to leave the window, whenever it was made and by whomever.
void check_ring(Backend backend) {
  Problem p;
  p.has_ring = true;
  p.window = GENERATE(1, 7, kWideWindow);
  p.delay = GENERATE_COPY(0, 1, p.window);
  p.has_scorer = GENERATE(false, true);
  p.rule = GENERATE(RetainRule::threshold, RetainRule::top_k);
  p.n_sink = p.window == 7 ? 0 : 4;
  CAPTURE(p.delay);
  check_problem(backend, filled(p));
}

/// As long a delay as the window is: the ring changes nothing.
void check_ring_of_leavers(Backend backend) {
  Problem p;
  p.rule = GENERATE(RetainRule::threshold, RetainRule::top_k);
  p.delay = p.window;
  p = filled(p);
  const Result without = run(backend, p, p.dtype);
  p.has_ring = true;
  const Result with = run(backend, p, p.dtype);
  CHECK(with.slot_position == without.slot_position);
  CHECK(std::memcmp(with.decision.data(), without.decision.data(), with.decision.size() * sizeof(RetainDecision)) == 0);
}

void check_zero_channel(Backend backend) {
  Problem p;
  p.dtype = GENERATE(DType::f32, DType::bf16);
  p.head_dim = GENERATE(64, 80, 128, 256);
  p.group = GENERATE(1, 4);
  p.zero_channel = GENERATE_COPY(0, p.head_dim / 2, p.head_dim - 1);
  p = filled(p);
  for (std::size_t i = 0; i < p.qkv.size(); i += p.row())
    p.qkv[i + p.zero_channel] = 50;  // if it were not 0 one saw it
  check_problem(backend, p);
  const Result found = run(backend, p, p.dtype);
  for (int row = 0; row < kSteps * p.n_heads(); ++row) {
    CAPTURE(row);
    REQUIRE((found.q[row * p.head_dim + p.zero_channel] == 0) == (row % p.group == 0));
  }
}

/// softmax(sign y) of n numbers, at the end of `out`.
void add_softmax(const double* y, int sign, int n, std::vector<double>& out) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += std::exp(sign * y[i]);
  for (int i = 0; i < n; ++i) out.push_back(std::exp(sign * y[i]) / sum);
}

/// phi(y) = [softmax(y), softmax(-y)], or softmax(y)
std::vector<double> feature_map(const Problem& p, const double* y) {
  std::vector<double> out;
  add_softmax(y, 1, p.softmax_map ? p.head_dim : p.head_dim / 2, out);
  if (!p.softmax_map) add_softmax(y, -1, p.head_dim / 2, out);
  return out;
}

/// LayerNorm with the weight of a head.
void normalise(const Problem& p, int head, std::vector<double>& h) {
  double mean = 0, square = 0;
  for (const double x : h) mean += x / p.head_dim;
  for (const double x : h) square += (x - mean) * (x - mean) / p.head_dim;
  for (int i = 0; i < p.head_dim; ++i) h[i] = (h[i] - mean) / std::sqrt(square + 1e-3) * p.norm[head * p.head_dim + i];
}

/// The first token, read at once, finds itself alone in the memory: h = v~ under the plain denominator, and
/// v~ q~.k~ / max(q~.k~, exp(-log i)) under the guarded one.
void check_immediate_read(Backend backend) {
  Problem p;
  p.has_scorer = p.has_ring = true;
  p.soft_cap = 0;
  p.guarded = GENERATE(false, true);
  p.head_norm = GENERATE(false, true);
  p.softmax_map = GENERATE(false, true);
  p = filled(p);
  // Head 0 lets in so much that q~.k~ is the larger one, head 1 so little that exp(-log i) is.
  p.bias[0] = p.softmax_map ? 9 : 5;
  p.bias[3] = -1;
  const Result found = run(backend, p, p.dtype);
  const int d = p.head_dim, columns = p.columns(), values = columns - 3 - d;
  for (int head = 0; head < kHeads; ++head) {
    std::vector<double> y(columns, 0.0), h(d);
    for (int i = 0; i < 2 * d; ++i) {
      const double x = i < d ? found.k[head * d + i] : found.v[head * d + i - d];
      for (int j = 0; j < columns; ++j) y[j] += x * p.weight[(head * 2 * d + i) * columns + j];
    }
    const std::vector<double> q = feature_map(p, y.data()), k = feature_map(p, y.data() + values / 2);
    double product = 0, expected = y[columns - 1] + p.bias[head * 3 + 2];
    for (int i = 0; i < d; ++i) product += q[i] * k[i];
    const double guard = std::exp(-(y[columns - 3] + p.bias[head * 3]));
    if (p.guarded) CHECK((guard > product) == (head == 1));
    const double share = p.guarded ? product / std::max(product, guard) : 1;
    for (int i = 0; i < d; ++i) h[i] = y[values + i] * share;
    if (p.head_norm) normalise(p, head, h);
    for (int i = 0; i < d; ++i) expected += h[i] / (1 + std::exp(-h[i])) * p.read[head * d + i];
    CAPTURE(head, p.guarded, p.head_norm, p.softmax_map, product, guard);
    CHECK(found.score[head] == Approx(expected).margin(1e-4));  // 64 terms near 1 of a float32 sum
  }
}

void check_guarded(Backend backend) {
  Problem p;
  p.has_scorer = p.guarded = true;
  p.dtype = GENERATE(DType::f32, DType::bf16);
  p.head_dim = GENERATE(64, 128, 256);
  p.soft_cap = GENERATE(0.0f, 15.0f);
  check_problem(backend, filled(p));
}

/// A head-wise norm, the softmax map, or both, for tokens that wait and for those that do not.
void check_variants(Backend backend) {
  Problem p;
  p.has_scorer = true;
  p.dtype = GENERATE(DType::f32, DType::bf16);
  p.head_dim = GENERATE(64, 80, 96, 128, 192, 256);
  p.head_norm = GENERATE(false, true);
  p.softmax_map = GENERATE(false, true);
  if (!p.head_norm && !p.softmax_map) return;
  p.has_ring = p.head_dim == 96;
  p.guarded = p.head_dim == 80;
  CAPTURE(p.head_norm, p.softmax_map);
  check_problem(backend, filled(p));
}

/// A broken scorer's NaN is the first to leave, and never spreads.
void check_nan_scores(Backend backend) {
  Problem p;
  p.rule = GENERATE(RetainRule::threshold, RetainRule::top_k);
  p = filled(p);
  for (std::size_t i = 0; i < p.score.size(); i += 3) p.score[i] = NAN;
  check_problem(backend, p);
}

/// With a read-out of zeros the score is the direct part alone: of the token that leaves, not of the one that comes.
void check_delay(Backend backend) {
  Problem p;
  p.has_scorer = true;
  p.window = GENERATE(1, 5, 16);
  p = filled(p);
  p.read.assign(p.read.size(), 0.0f);
  const Result found = run(backend, p, p.dtype);
  const int d = p.head_dim, columns = 2 * d + 3;
  for (int t = p.window; t < kSteps; ++t) {
    for (int head = 0; head < kHeads; ++head) {
      double direct = p.bias[head * 3 + 2];
      for (int i = 0; i < 2 * d; ++i) {
        const int token = (t - p.window) * kHeads + head;
        const float x = i < d ? found.k[token * d + i] : found.v[token * d + i - d];
        direct += static_cast<double>(x) * p.weight[(head * 2 * d + i) * columns + columns - 1];
      }
      CAPTURE(p.window, t, head);
      // 128 products of size 0.1, each rounded at 2^-24.
      REQUIRE(found.score[t * kHeads + head] == Approx(direct).margin(1e-5));
    }
  }
}

}  // namespace

TEST_CASE("admit_step: does what norm, rotation, scorer, contest and append do one after another",
          "[kernels][admit_step]") {
  check_shapes(Backend::cpu);
}

TEST_CASE("admit_step: decides as retain_step does, under every rule", "[kernels][admit_step]") {
  check_rules(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("admit_step: every head goes by its own threshold and top_k", "[kernels][admit_step]") {
  check_heads(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("admit_step: a score waits in the ring until its token leaves the window", "[kernels][admit_step]") {
  const Backend backend = GENERATE(Backend::reference, Backend::cpu);
  SECTION("whenever it was made") { check_ring(backend); }
  SECTION("which changes nothing if it is made then") { check_ring_of_leavers(backend); }
}

TEST_CASE("admit_step: the channel that is a gate is 0 before and after the rotation", "[kernels][admit_step]") {
  check_zero_channel(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("admit_step: without delay the first token reads itself", "[kernels][admit_step]") {
  check_immediate_read(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("admit_step: the guarded denominator is as exact as the plain one", "[kernels][admit_step]") {
  check_guarded(Backend::cpu);
}

TEST_CASE("admit_step: a head-wise norm and the softmax map are as exact as the published scorer",
          "[kernels][admit_step]") {
  check_variants(Backend::cpu);
}

TEST_CASE("admit_step: a NaN score leaves first and does not spread", "[kernels][admit_step]") {
  check_nan_scores(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("admit_step: the score is that of the token that leaves the window", "[kernels][admit_step]") {
  check_delay(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("admit_step: refuses what does not fit, by name and value", "[kernels][admit_step][validate]") {
  float x[64] = {};
  std::int32_t i[64] = {};
  RetainDecision decision[1];
  AdmitStepArgs args = {.cache = {.k_pool = x,
                                  .v_pool = x,
                                  .page_table = i,
                                  .slot_position = i,
                                  .n_slots = i,
                                  .slot_priority = x,
                                  .n_kv_heads = 1,
                                  .head_dim = 3,
                                  .page_size = 16,
                                  .max_pages = 1},
                        .qkv = x,
                        .inv_freq = x,
                        .position = i,
                        .q = x,
                        .n_heads = 1,
                        .policy = {.rule = RetainRule::top_k},
                        .decision = decision};
  CHECK_THROWS_WITH(admit_step(args, {}), "admit_step: cache.head_dim is 3; expected an even number");
  args.cache.head_dim = 2;
  CHECK_THROWS_WITH(admit_step(args, {Backend::reference}), "admit_step: score is null");
  args.scorer.project = x;
  args.scorer.delay = -1;
  CHECK_THROWS_WITH(admit_step(args, {}), "admit_step: scorer.delay is -1; expected 0 ... 1073741823");
  args.scorer.delay = 1;
  CHECK_THROWS_WITH(admit_step(args, {}), "admit_step: scorer.bias is null");
  args.scorer.bias = args.scorer.read = args.scorer.c = args.scorer.z = args.scorer.m = x;
  CHECK_THROWS_WITH(admit_step(args, {}), "admit_step: scorer.queries is null");
  args.score_ring = x;
  CHECK_THROWS_WITH(admit_step(args, {}), "admit_step: score_delay is 0; expected scorer.delay, 1");
  args.score_delay = 2;
  CHECK_THROWS_WITH(admit_step(args, {Backend::reference}), "admit_step: score_delay is 2; expected 0 ... 1");
  args.zero_channel = 2;
  CHECK_THROWS_WITH(admit_step(args, {}), "admit_step: zero_channel is 2; expected -1 ... 1");
  args.scorer.project = nullptr;
  args.zero_channel = -1;
  args.score_delay = 1;
  args.policy.rule = RetainRule::keep_all;
  CHECK_THROWS_WITH(admit_step(args, {}), "admit_step: score is null");  // what would go into the ring?
  args.policy.window = 0;
  CHECK_THROWS_WITH(admit_step(args, {}), Catch::Matchers::Contains("window is 0; expected 1 ..."));
}

TEST_CASE("admit_step: on CUDA does what norm, rotation, scorer, contest and append do one after another",
          "[kernels][admit_step][cuda]") {
  if (skip_without_device()) return;
  check_shapes(Backend::cuda);
}

TEST_CASE("admit_step: on CUDA decides as retain_step does, under every rule", "[kernels][admit_step][cuda]") {
  if (skip_without_device()) return;
  check_rules(Backend::cuda);
}

TEST_CASE("admit_step: on CUDA a NaN score leaves first, and scores are those of who leaves",
          "[kernels][admit_step][cuda]") {
  if (skip_without_device()) return;
  SECTION("NaN") { check_nan_scores(Backend::cuda); }
  SECTION("delay") { check_delay(Backend::cuda); }
}

TEST_CASE("admit_step: on CUDA every head goes by its own rule, and a score waits in the ring",
          "[kernels][admit_step][cuda]") {
  if (skip_without_device()) return;
  SECTION("heads") { check_heads(Backend::cuda); }
  SECTION("scores made at any time") { check_ring(Backend::cuda); }
  SECTION("scores made when their token leaves") { check_ring_of_leavers(Backend::cuda); }
}

TEST_CASE("admit_step: on CUDA the channel that is a gate is 0 before and after the rotation",
          "[kernels][admit_step][cuda]") {
  if (skip_without_device()) return;
  check_zero_channel(Backend::cuda);
}

TEST_CASE("admit_step: on CUDA without delay the first token reads itself, and a guard may hold",
          "[kernels][admit_step][cuda]") {
  if (skip_without_device()) return;
  SECTION("itself") { check_immediate_read(Backend::cuda); }
  SECTION("guarded") { check_guarded(Backend::cuda); }
}

TEST_CASE("admit_step: on CUDA a head-wise norm and the softmax map are as exact as the published scorer",
          "[kernels][admit_step][cuda]") {
  if (skip_without_device()) return;
  check_variants(Backend::cuda);
}

TEST_CASE("admit_step: a row gives the same bits alone or among others", "[kernels][admit_step]") {
  check_rows(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("admit_step: on CUDA a row gives the same bits alone or among others", "[kernels][admit_step][cuda]") {
  if (skip_without_device()) return;
  check_rows(Backend::cuda);
}

TEST_CASE("admit_step: sequences of one model come in and leave, and none changes a bit of another",
          "[kernels][admit_step]") {
  check_batches(GENERATE(Backend::reference, Backend::cpu), {2, 9});
}

TEST_CASE("admit_step: on CUDA sequences of one model come in and leave, and none changes a bit of another",
          "[kernels][admit_step][cuda]") {
  if (skip_without_device()) return;
  check_batches(Backend::cuda, kShort ? std::vector{17} : std::vector{1, 2, 3, 5, 16, 17, 32, 35});
}
