#include "kernels/gate_score.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "kernels/admit_step.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "kernels/rule/counter_random.h"
#include "tests/kernels/cache_fixture.h"
#include "tests/kernels/numbers.h"

using namespace kvscope::kernels;
using namespace kvscope::test;

namespace {

constexpr int kHeads = 16;  // KV heads: so many results that the naive error of all of them is no matter of luck
constexpr float kEps = 1e-6f;

struct Problem {
  DType dtype = DType::f32;
  int head_dim = 64, group = 2, n_hidden = 0;
  GateSource source = GateSource::key_value;
  GateActivation activation = GateActivation::silu;
  bool has_norm = true, has_bias = true, sigmoid = false;
  float attention_scaling = 1, gate_eps = 1e-6f, scale = 1, offset = 0;
  std::int32_t position = 1234;
  std::uint64_t seed = 7;
  int layer = 3;
  std::vector<float> qkv;             // [(n_heads + 2 kHeads) * head_dim]
  std::vector<float> q_norm, k_norm;  // [head_dim]
  std::vector<float> inv_freq;        // [head_dim / 2]
  std::vector<float> pre_weight, post_weight;
  std::vector<float> w1, b1, w2, b2;
  std::vector<float> anchor;  // [kHeads * head_dim], before the token

  int n_heads() const { return kHeads * group; }
  float norm_offset() const { return head_dim == 128 || head_dim == 256 ? 1 : 0; }
};

/// The problem with random numbers for the sizes that it has.
Problem filled(Problem p) {
  const int d = p.head_dim;
  p.qkv = rounded(random_normal(static_cast<std::size_t>(p.n_heads() + 2 * kHeads) * d, 201), p.dtype);
  p.q_norm = rounded(random_normal(d, 202), p.dtype);
  p.k_norm = rounded(random_normal(d, 203), p.dtype);
  for (int i = 0; i < d / 2; ++i) p.inv_freq.push_back(std::pow(10'000.0f, -2.0f * i / d));
  p.pre_weight = random_normal(d, 204);
  p.post_weight = random_normal(d, 205);
  p.w1 = random_normal(static_cast<std::size_t>(kHeads) * p.n_hidden * 2 * d, 206, 1 / std::sqrt(2.0f * d));
  p.b1 = random_normal(static_cast<std::size_t>(kHeads) * p.n_hidden, 207);
  const int n_last = p.n_hidden > 0 ? p.n_hidden : 2 * d;
  p.w2 = random_normal(static_cast<std::size_t>(kHeads) * n_last, 208, 1 / std::sqrt(static_cast<float>(n_last)));
  p.b2 = random_normal(kHeads, 209);
  p.anchor = random_normal(static_cast<std::size_t>(kHeads) * d, 210);
  return p;
}

/// `dtype` may be f32 for a bf16 problem: the same numbers, nothing rounded.
GateScoreArgs put(const Problem& p, DType dtype, Memory& memory) {
  return {.qkv = memory.put(pack(p.qkv, dtype)),
          .q_norm = p.has_norm ? memory.put(pack(p.q_norm, dtype)) : nullptr,
          .k_norm = p.has_norm ? memory.put(pack(p.k_norm, dtype)) : nullptr,
          .inv_freq = memory.put(p.inv_freq),
          .position = memory.put(std::vector<std::int32_t>{p.position}),
          .n_heads = p.n_heads(),
          .n_kv_heads = kHeads,
          .head_dim = p.head_dim,
          .eps = kEps,
          .norm_offset = p.norm_offset(),
          .attention_scaling = p.attention_scaling,
          .dtype = dtype,
          .source = p.source,
          .gate_eps = p.gate_eps,
          .pre_weight = memory.put(p.pre_weight),
          .post_weight = memory.put(p.post_weight),
          .w1 = memory.put(p.w1),
          .b1 = p.has_bias ? memory.put(p.b1) : nullptr,
          .w2 = memory.put(p.w2),
          .b2 = p.has_bias ? memory.put(p.b2) : nullptr,
          .n_hidden = p.n_hidden,
          .activation = p.activation,
          .seed = p.seed,
          .layer = p.layer,
          .anchor = memory.put(p.anchor),
          .scale = p.scale,
          .offset = p.offset,
          .sigmoid = p.sigmoid,
          .out = memory.put(poison(kHeads))};
}

/// `anchor_after`: what the token left there.
std::vector<float> run(Backend backend, const Problem& p, DType dtype, std::vector<float>* anchor_after = nullptr) {
  Memory memory(backend);
  const GateScoreArgs args = put(p, dtype, memory);
  gate_score(args, {backend});
  if (anchor_after != nullptr) *anchor_after = memory.get(args.anchor);
  return memory.get(args.out);
}

/// Of gates of every kind, at other positions.
void check_rows(Backend backend) {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  std::vector<Problem> problems;
  for (const GateSource source : {GateSource::key_value, GateSource::random, GateSource::key_pair,
                                  GateSource::query_channel, GateSource::key_anchor, GateSource::key_norm}) {
    for (const int n_hidden : {0, 16, 128}) {
      if (n_hidden > 0 && !has_weights(source)) continue;
      Problem p = {.dtype = dtype, .n_hidden = n_hidden, .source = source};
      p.position += static_cast<std::int32_t>(problems.size());
      p.sigmoid = n_hidden == 16;
      problems.push_back(filled(p));
    }
  }
  Memory memory(backend);
  std::vector<GateScoreArgs> rows;
  for (const Problem& p : problems) rows.push_back(put(p, dtype, memory));
  gate_score(rows, {backend});
  for (std::size_t row = 0; row < rows.size(); ++row) {
    CAPTURE(row, static_cast<int>(dtype));
    std::vector<float> anchor;
    CHECK(memory.get(rows[row].out) == run(backend, problems[row], dtype, &anchor));
    CHECK(memory.get(rows[row].anchor) == anchor);
  }
}

/// Rows `first` ... of qkv by rms_norm and rope of the CPU, each of which rounds.
std::vector<float> naive_rows(const Problem& p, int first, int n, const std::vector<float>& norm, bool rotates) {
  const auto begin = p.qkv.begin() + first * p.head_dim;
  std::vector<std::byte> x = pack({begin, begin + n * p.head_dim}, p.dtype);
  const auto weight = pack(norm, p.dtype);
  if (p.has_norm) {
    rms_norm({.x = x.data(),
              .weight = weight.data(),
              .out = x.data(),
              .n_rows = n,
              .x_stride = p.head_dim,
              .dim = p.head_dim,
              .eps = kEps,
              .weight_offset = p.norm_offset(),
              .dtype = p.dtype},
             {});
  }
  if (rotates) {
    rope({.x = x.data(),
          .positions = &p.position,
          .inv_freq = p.inv_freq.data(),
          .n_tokens = 1,
          .n_heads = n,
          .head_dim = p.head_dim,
          .attention_scaling = p.attention_scaling,
          .dtype = p.dtype},
         {});
  }
  return unpack(x, p.dtype);
}

std::vector<float> naive_rms(std::vector<float> k, const std::vector<float>& weight, float eps) {
  float squares = 0;
  for (const float x : k) squares += x * x;
  const float inverse = 1 / std::sqrt(squares / static_cast<float>(k.size()) + eps);
  for (std::size_t i = 0; i < k.size(); ++i) k[i] = k[i] * inverse * weight[i];
  return k;
}

std::vector<float> naive_inputs(const Problem& p, int head) {
  const int key = p.n_heads() + head;
  std::vector<float> x = naive_rows(p, key, 1, p.k_norm, true);
  std::vector<float> rest;
  if (p.source == GateSource::key_pair) {
    rest = naive_rms(x, p.post_weight, p.gate_eps);
    x = naive_rms(naive_rows(p, key, 1, p.k_norm, false), p.pre_weight, p.gate_eps);
  } else {
    const auto value = p.qkv.begin() + (key + kHeads) * p.head_dim;
    rest.assign(value, value + p.head_dim);
  }
  x.insert(x.end(), rest.begin(), rest.end());
  return x;
}

float naive_activation(GateActivation activation, float x) {
  if (activation == GateActivation::silu) return x / (1 + std::exp(-x));
  return activation == GateActivation::gelu ? x / 2 * (1 + std::erf(x / std::sqrt(2.0f))) : x;
}

float naive_product(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Of the key itself, and the sum of unit keys after it.
float naive_key_score(const Problem& p, int head, std::vector<float>* anchor = nullptr) {
  const std::vector<float> k = naive_rows(p, p.n_heads() + head, 1, p.k_norm, true);
  const float length = std::sqrt(naive_product(k, k));
  if (p.source == GateSource::key_norm) return -length;
  std::vector<float> sum(p.anchor.begin() + head * p.head_dim, p.anchor.begin() + (head + 1) * p.head_dim);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += k[i] / length;
  if (anchor != nullptr) anchor->insert(anchor->end(), sum.begin(), sum.end());
  return -naive_product(k, sum) / (length * std::sqrt(naive_product(sum, sum)));
}

/// One float after the other.
std::vector<float> naive(const Problem& p) {
  std::vector<float> out;
  for (int head = 0; head < kHeads; ++head) {
    float score = p.has_bias && has_weights(p.source) ? p.b2[head] : 0.0f;
    if (is_of_key(p.source)) {
      score = naive_key_score(p, head);
    } else if (p.source == GateSource::query_channel) {
      score = naive_rows(p, head * p.group, 1, p.q_norm, false).back();
    } else {
      const std::vector<float> x = naive_inputs(p, head);
      const auto product = [&](const std::vector<float>& w, std::size_t row) {
        float sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i) sum += w[row * x.size() + i] * x[i];
        return sum;
      };
      if (p.n_hidden == 0) score += product(p.w2, head);
      for (int i = head * p.n_hidden; i < (head + 1) * p.n_hidden; ++i) {
        score += p.w2[i] * naive_activation(p.activation, product(p.w1, i) + (p.has_bias ? p.b1[i] : 0.0f));
      }
    }
    const float y = p.scale * score + p.offset;
    out.push_back(p.sigmoid ? 1 / (1 + std::exp(-y)) : y);
  }
  return out;
}

void check_problem(Backend backend, const Problem& p) {
  CAPTURE(static_cast<int>(p.dtype), static_cast<int>(p.source), static_cast<int>(p.activation), p.head_dim, p.group,
          p.n_hidden, p.has_norm, p.has_bias, p.sigmoid);
  const std::vector<float> expected = run(Backend::reference, p, DType::f32);
  const std::vector<float> found = run(backend, p, p.dtype);
  CHECK(max_error(found, expected) <= allowed_error(max_error(naive(p), expected), expected, p.dtype));
}

/// Hidden sizes around a warp's rows, a block's and a cluster's.
void check_sizes(Backend backend) {
  Problem p;
  p.dtype = GENERATE(DType::f32, DType::bf16);
  p.n_hidden = GENERATE(0, 1, 3, 63, 64, 65, 192, 512, 777);
  p.head_dim = p.n_hidden == 777 ? 256 : p.n_hidden % 2 == 0 ? 128 : 64;
  p.source = GENERATE(GateSource::key_value, GateSource::key_pair);
  p.activation = GENERATE(GateActivation::silu, GateActivation::gelu, GateActivation::identity);
  check_problem(backend, filled(p));
}

void check_shapes(Backend backend) {
  Problem p;
  p.dtype = GENERATE(DType::f32, DType::bf16);
  p.head_dim = GENERATE(64, 80, 96, 128, 192, 256);
  p.source = GENERATE(GateSource::key_value, GateSource::key_pair, GateSource::query_channel, GateSource::key_norm,
                      GateSource::key_anchor);
  p.group = GENERATE(1, 4);
  p.n_hidden = p.group == 1 ? 96 : 0;
  p.has_norm = p.group == 4 || p.head_dim == 64;
  p.has_bias = p.head_dim != 96;
  p.attention_scaling = p.head_dim == 80 ? 1.2f : 1.0f;
  p.gate_eps = p.head_dim == 96 ? 0.1f : 1e-6f;
  p.scale = p.source == GateSource::query_channel ? -100 : 2;
  p.offset = 0.5f;
  p.sigmoid = p.head_dim == 128;
  check_problem(backend, filled(p));
}

/// What a gate sees is what admit_step puts into the cache, bit for bit: a weight of 1 on one input shows it.
void check_sees_the_cache(Backend backend) {
  Problem p;
  p.dtype = GENERATE(DType::f32, DType::bf16);
  p.head_dim = GENERATE(64, 80, 256);
  p.has_norm = GENERATE(false, true);
  p.has_bias = false;
  p = filled(p);
  const int d = p.head_dim;
  Memory memory(backend);
  HostCache cache = empty_cache(std::vector<int>(kHeads, 1), d, 1, p.dtype, 31);
  cache.n_slots.assign(kHeads, 0);
  const AdmitStepArgs args = {.cache = upload(cache, memory),
                              .qkv = memory.put(pack(p.qkv, p.dtype)),
                              .k_norm = p.has_norm ? memory.put(pack(p.k_norm, p.dtype)) : nullptr,
                              .inv_freq = memory.put(p.inv_freq),
                              .position = memory.put(std::vector<std::int32_t>{p.position}),
                              .q = memory.put(poison(static_cast<std::size_t>(p.n_heads()) * d, p.dtype)),
                              .n_heads = p.n_heads(),
                              .eps = kEps,
                              .norm_offset = p.norm_offset(),
                              .decision = memory.put(std::vector<RetainDecision>(kHeads))};
  admit_step(args, {backend});
  const auto keys = unpack(memory.get(static_cast<const std::byte*>(args.cache.k_pool)), p.dtype);
  const auto values = unpack(memory.get(static_cast<const std::byte*>(args.cache.v_pool)), p.dtype);
  for (const int i : {0, 5, d / 2, d - 1, d, 2 * d - 1}) {
    for (int at = 0; at < kHeads * 2 * d; ++at) p.w2[at] = at % (2 * d) == i ? 1.0f : 0.0f;
    const std::vector<float> found = run(backend, p, p.dtype);
    for (int head = 0; head < kHeads; ++head) {
      CAPTURE(i, head);
      REQUIRE(found[head] == (i < d ? keys[cache.row(head, 0) + i] : values[cache.row(head, 0) + i - d]));
    }
  }
}

/// At position 0 nothing is rotated: both halves of a pair are the same key.
void check_pair_at_zero(Backend backend) {
  Problem p;
  p.source = GateSource::key_pair;
  p.position = 0;
  p = filled(p);
  p.post_weight = p.pre_weight;
  const int d = p.head_dim;
  for (int i = 0; i < kHeads * 2 * d; ++i) {
    if (i % (2 * d) >= d) p.w2[i] = -p.w2[i - d];
  }
  CHECK(max_error(run(backend, p, p.dtype), p.b2) < 1e-5);  // 64 terms near 1 that cancel
}

/// Keys of one number each: normed they are 1 / sqrt(1 + eps) times its sign, whatever the model's own eps.
void check_gate_eps(Backend backend) {
  Problem p;
  p.source = GateSource::key_pair;
  p.has_norm = p.has_bias = false;
  p.position = 0;
  p.gate_eps = 0.44f;
  p = filled(p);
  const int d = p.head_dim;
  for (int i = p.n_heads() * d; i < (p.n_heads() + kHeads) * d; ++i) p.qkv[i] = 1;
  p.pre_weight.assign(d, 1.0f);
  p.post_weight.assign(d, 1.0f);
  p.w2.assign(p.w2.size(), 1 / (2.0f * static_cast<float>(d)));
  for (const float score : run(backend, p, p.dtype)) CHECK(score == Approx(1 / 1.2));
}

/// DMS: the logit of a head is 100 times the channel minus 5, whatever the other heads of the group say.
void check_query_channel(Backend backend) {
  Problem p;
  p.source = GateSource::query_channel;
  p.has_norm = false;
  p.scale = 100;
  p.offset = -5;
  p = filled(p);
  const int d = p.head_dim;
  for (int head = 0; head < kHeads; ++head) p.qkv[head * p.group * d + d - 1] = 0.25f * static_cast<float>(head);
  std::vector<float> expected;
  for (int head = 0; head < kHeads; ++head) expected.push_back(25.0f * static_cast<float>(head) - 5);
  CHECK(run(backend, p, p.dtype) == expected);
}

/// One hidden number a head: the activations at 1 and -1, and what follows them.
void check_activations(Backend backend) {
  Problem p;
  p.n_hidden = 1;
  p = filled(p);
  p.w1.assign(p.w1.size(), 0.0f);
  p.w2.assign(kHeads, 1.0f);
  p.b2.assign(kHeads, 0.0f);
  for (int head = 0; head < kHeads; ++head) p.b1[head] = head % 2 == 0 ? 1.0f : -1.0f;
  const auto check = [&](double at_1, double at_minus_1) {
    const std::vector<float> out = run(backend, p, p.dtype);
    CHECK(out[0] == Approx(at_1).margin(1e-6));
    CHECK(out[1] == Approx(at_minus_1).margin(1e-6));
  };
  check(0.7310586, -0.2689414);
  p.activation = GateActivation::gelu;
  check(0.8413447, -0.1586553);
  p.activation = GateActivation::identity;
  check(1, -1);
  p.scale = 3;
  p.offset = -2;
  check(1, -5);
  p.sigmoid = true;
  check(0.7310586, 0.0066929);
}

/// The anchor is the sum of unit keys: after a key of a new direction it holds that, and a key that is again the same is its
/// own anchor.
void check_anchor(Backend backend) {
  Problem p;
  p.source = GateSource::key_anchor;
  p.has_norm = false;
  p.position = 0;
  p = filled(p);
  p.anchor.assign(p.anchor.size(), 0.0f);
  std::vector<float> anchor;
  for (const float score : run(backend, p, p.dtype, &anchor)) CHECK(score == Approx(-1).epsilon(1e-6));
  p.anchor = anchor;
  for (int head = 0; head < kHeads; ++head) {
    const std::vector<float> one(anchor.begin() + head * p.head_dim, anchor.begin() + (head + 1) * p.head_dim);
    CHECK(naive_product(one, one) == Approx(1).epsilon(1e-5));
  }
  for (int i = p.n_heads() * p.head_dim; i < (p.n_heads() + kHeads) * p.head_dim; ++i) p.qkv[i] *= -3;
  std::vector<float> expected;
  for (int head = 0; head < kHeads; ++head) naive_key_score(p, head, &expected);
  run(backend, p, p.dtype, &anchor);
  CHECK(max_error(anchor, expected) < 1e-6);  // opposite units: zeros but for rounding
  CHECK(max_error(anchor, std::vector<float>(anchor.size(), 0.0f)) < 1e-6);
}

/// A key of zeros has no direction: norm 0, and a cosine of 0, not NaN.
void check_zero_key(Backend backend) {
  Problem p;
  p.source = GENERATE(GateSource::key_norm, GateSource::key_anchor);
  p.has_norm = false;
  p = filled(p);
  p.qkv.assign(p.qkv.size(), 0.0f);
  for (const float score : run(backend, p, p.dtype)) CHECK(score == 0);
}

void check_random(Backend backend) {
  Problem p;
  p.source = GateSource::random;
  p.position = 1000;
  const auto unit = [](int n) { return static_cast<float>(n) / (1 << 24); };
  const std::vector<float> found = run(backend, p, p.dtype);
  CHECK(found[0] == unit(7580117));
  CHECK(found[1] == unit(8959335));
  for (int head = 0; head < kHeads; ++head) REQUIRE(found[head] == counter_uniform(7, 3, head, 1000));
  p.layer = 0;
  p.position = 0;
  CHECK(run(backend, p, p.dtype)[0] == unit(1224240));
  p.layer = 4095;
  p.position = 131071;
  CHECK(run(backend, p, p.dtype)[0] == unit(14515361));
  p.seed = (1ull << 63) + 5;
  p.layer = 35;
  p.position = 1 << 30;
  CHECK(run(backend, p, p.dtype)[2] == unit(1309301));
}

}  // namespace

TEST_CASE("gate_score: is as exact as a plain product, whatever the gate", "[kernels][gate_score]") {
  SECTION("for every number of hidden rows") { check_sizes(Backend::cpu); }
  SECTION("for every shape of head") { check_shapes(Backend::cpu); }
}

TEST_CASE("gate_score: a gate sees the key and the value that the cache holds", "[kernels][gate_score]") {
  check_sees_the_cache(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("gate_score: at position 0 a key is the same before and after its rotation", "[kernels][gate_score]") {
  check_pair_at_zero(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("gate_score: a pair of keys is normed with the gate's own eps", "[kernels][gate_score]") {
  check_gate_eps(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("gate_score: a query channel is that of the first head of the group", "[kernels][gate_score]") {
  check_query_channel(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("gate_score: activations have their values at 1 and -1", "[kernels][gate_score]") {
  check_activations(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("gate_score: KeyDiff's anchor is the sum of all keys so far, each of length 1", "[kernels][gate_score]") {
  check_anchor(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("gate_score: a key of zeros scores 0", "[kernels][gate_score]") {
  check_zero_key(GENERATE(Backend::reference, Backend::cpu));
}

// The numbers come from the same formula in Python's integers.
TEST_CASE("gate_score: random scores are the same numbers everywhere", "[kernels][gate_score]") {
  check_random(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("counter_uniform: is spread evenly from 0 to 1, and otherwise for another head, layer or seed",
          "[kernels][gate_score]") {
  constexpr int kDraws = 10'000;
  std::vector<int> bins(10, 0);
  std::set<float> seen;
  for (std::int32_t position = 0; position < kDraws; ++position) {
    const float u = counter_uniform(11, 5, 2, position);
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    ++bins[static_cast<int>(10 * u)];
    seen.insert({u, counter_uniform(11, 5, 3, position), counter_uniform(11, 6, 2, position),
                 counter_uniform(12, 5, 2, position)});
  }
  for (const int n : bins) CHECK(std::abs(n - kDraws / 10) < 150);  // five standard deviations of 30
  CHECK(seen.size() > 4 * kDraws - 150);  // of 40,000 draws from 2^24 some 48 meet another one
}

TEST_CASE("gate_score: refuses what does not fit, by name and value", "[kernels][gate_score][validate]") {
  float x[64] = {};
  std::int32_t position = 0;
  GateScoreArgs args = {.qkv = x,
                        .inv_freq = x,
                        .position = &position,
                        .n_heads = 3,
                        .n_kv_heads = 2,
                        .head_dim = 4,
                        .source = GateSource::key_pair,
                        .w2 = x,
                        .n_hidden = 4097,
                        .out = x};
  CHECK_THROWS_WITH(gate_score(args, {}), "gate_score: n_heads is 3; expected a multiple of n_kv_heads");
  args.n_heads = 2;
  CHECK_THROWS_WITH(gate_score(args, {}), "gate_score: n_hidden is 4097; expected 0 ... 4096");
  args.n_hidden = 1;
  CHECK_THROWS_WITH(gate_score(args, {Backend::reference}), "gate_score: w1 is null");
  args.n_hidden = 0;
  CHECK_THROWS_WITH(gate_score(args, {}), "gate_score: pre_weight is null");
  args.head_dim = 5;
  CHECK_THROWS_WITH(gate_score(args, {}), "gate_score: head_dim is 5; expected an even number");
  args.layer = 4096;
  args.head_dim = 4;
  CHECK_THROWS_WITH(gate_score(args, {}), "gate_score: layer is 4096; expected 0 ... 4095");
}

TEST_CASE("gate_score: on CUDA is as exact as a plain product, whatever the gate", "[kernels][gate_score][cuda]") {
  if (skip_without_device()) return;
  SECTION("for every number of hidden rows") { check_sizes(Backend::cuda); }
  SECTION("for every shape of head") { check_shapes(Backend::cuda); }
}

TEST_CASE("gate_score: on CUDA a gate sees what the cache holds", "[kernels][gate_score][cuda]") {
  if (skip_without_device()) return;
  SECTION("key and value") { check_sees_the_cache(Backend::cuda); }
  SECTION("the key before and after its rotation") { check_pair_at_zero(Backend::cuda); }
  SECTION("the gate's own eps") { check_gate_eps(Backend::cuda); }
  SECTION("a query's channel") { check_query_channel(Backend::cuda); }
  SECTION("the sum of unit keys") { check_anchor(Backend::cuda); }
  SECTION("a key of zeros") { check_zero_key(Backend::cuda); }
}

TEST_CASE("gate_score: on CUDA activations and random scores have their values", "[kernels][gate_score][cuda]") {
  if (skip_without_device()) return;
  SECTION("activations") { check_activations(Backend::cuda); }
  SECTION("random") { check_random(Backend::cuda); }
}

TEST_CASE("gate_score: a row gives the same bits alone or among others", "[kernels][gate_score]") {
  check_rows(GENERATE(Backend::reference, Backend::cpu));
}

TEST_CASE("gate_score: on CUDA a row gives the same bits alone or among others", "[kernels][gate_score][cuda]") {
  if (skip_without_device()) return;
  check_rows(Backend::cuda);
}
