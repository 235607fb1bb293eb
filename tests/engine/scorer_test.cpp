// The three forms of the delayed mLSTM scorer, and the file it is read from.
#include <filesystem>
#include <limits>

#include "engine/core/support/error.h"
#include "engine/decode/eviction/slot_cache.h"
#include "engine/jobs/train/scorer_module.h"
#include "engine/scorer/kvpop_scorer.h"
#include "engine/scorer/loaded_model.h"
#include "tests/engine/gated_model.h"
#include "tests/support/folders.h"
#include "tests/support/mlstm_variants.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope::engine {
namespace {

struct Input {
  at::Tensor k, v;  // [n, n_kv_heads, head_dim]
};

Input some_input(int n, std::uint64_t seed = 5) {
  const TensorSource source = formula_source(seed);
  return {source("matrix.k", {n, 2, 64}) * 4, source("matrix.v", {n, 2, 64}) * 4};
}

KvpopScorer some_scorer(int delay, double soft_cap = 0, const MlstmVariant& variant = {}) {
  return KvpopScorer({.delay = delay, .soft_cap = soft_cap, .variant = variant, .norm_eps = 1e-3}, test::small_config(),
                     formula_source(3), c10::Device(c10::kCPU));
}

/// The quadratic form in double precision, straight from the definition (train.py's Scorer in other words): no blocks,
/// no state.
at::Tensor quadratic(int layer, const Input& input, int delay, double soft_cap, const MlstmVariant& variant) {
  const TensorSource source = formula_source(3);
  const std::int64_t n = input.k.size(0), d = 64;
  const auto get = [&](const char* name, std::vector<std::int64_t> shape) {
    return source(name, shape)[layer].to(at::kDouble);
  };
  const auto cap = [&](const at::Tensor& a) { return soft_cap == 0 ? a : at::tanh(a / soft_cap) * soft_cap; };
  const bool softmax = variant.feature_map == FeatureMap::softmax;
  const std::int64_t map = softmax ? d : d / 2;
  const auto phi = [&](const at::Tensor& y) {
    return softmax ? y.softmax(-1) : at::cat({y.softmax(-1), (-y).softmax(-1)}, -1);
  };
  const at::Tensor x = at::cat({input.k, input.v}, -1).to(at::kDouble).transpose(0, 1);  // [heads, n, 2 d]
  const at::Tensor q = phi(at::bmm(x, get("wq", {2, 2, 2 * d, map}))),
                   k = phi(at::bmm(x, get("wk", {2, 2, 2 * d, map})));
  const at::Tensor v = variant.cached_values ? x.narrow(2, d, d) : at::bmm(x, get("wv", {2, 2, 2 * d, d}));
  const at::Tensor out = get("out", {2, 2, variant.skip ? 3 * d : d});
  const at::Tensor log_i = cap(at::bmm(x, get("gi", {2, 2, 2 * d, 1})).squeeze(-1) + get("bi", {2, 2, 1}));
  const at::Tensor c =
      at::log_sigmoid(cap(at::bmm(x, get("gf", {2, 2, 2 * d, 1})).squeeze(-1) + get("bf", {2, 2, 1}))).cumsum(1);
  const at::Tensor e = at::arange(n - delay) + delay;  // where token t is read
  at::Tensor w = c.index_select(1, e).unsqueeze(2) - c.unsqueeze(1) + log_i.unsqueeze(1);
  w.masked_fill_(at::arange(n).unsqueeze(0) > e.unsqueeze(1), -std::numeric_limits<double>::infinity());
  w = (w - w.amax(-1, true)).exp() * at::bmm(q.narrow(1, 0, n - delay), k.transpose(1, 2));
  at::Tensor h = at::bmm(w, v) / w.sum(-1, true).clamp_min(1e-6);
  if (variant.head_norm) {
    const at::Tensor centred = h - h.mean(-1, true);
    h = centred / (centred.square().mean(-1, true) + 1e-3).sqrt() * get("norm", {2, 2, d}).unsqueeze(1);
  }
  const at::Tensor score = (at::silu(h) * out.narrow(1, 0, d).unsqueeze(1)).sum(-1) + get("b", {2, 2}).unsqueeze(1);
  if (!variant.skip) return score;
  return score + (x.narrow(1, 0, n - delay) * out.narrow(1, d, 2 * d).unsqueeze(1)).sum(-1);
}

/// One token through the fused kernel of a decode step, as the engine calls it, but without rotation (frequency 0) and
/// with a cache that keeps everything: only the scorer is left. -> scores [heads] of token `position` - delay.
at::Tensor kernel_step(const KvpopScorer& scorer, int layer, const at::Tensor& k, const at::Tensor& v,
                       ScorerState& state, SlotCache& cache) {
  const std::int64_t heads = k.size(0), d = k.size(1);
  const std::int32_t position = static_cast<std::int32_t>(state.n_tokens++);
  const at::Tensor qkv = at::cat({at::zeros({heads, d}), k, v}, 0).contiguous(), q = at::empty({heads, d}),
                   inv_freq = at::zeros({d / 2}), score = at::empty({heads});
  std::vector<kernels::RetainDecision> decision(static_cast<std::size_t>(heads));
  kernels::admit_step({.cache = cache.view(0),
                       .qkv = qkv.data_ptr(),
                       .inv_freq = inv_freq.data_ptr<float>(),
                       .position = &position,
                       .q = q.data_ptr(),
                       .n_heads = static_cast<int>(heads),
                       .scorer = scorer.view(layer, state),
                       .score = score.data_ptr<float>(),
                       .decision = decision.data()},
                      {});
  return score;
}

SlotCache cache_for(int n) {
  SlotCache cache(1, 2, 64, n, at::kFloat, c10::Device(c10::kCPU));
  cache.reserve(n);
  return cache;
}

double largest(const at::Tensor& difference) { return difference.abs().max().item<double>(); }

/// Blocks, steps and the quadratic form give the same scores.
void check_forms(int delay, int layer, int n, double soft_cap, const MlstmVariant& variant) {
  CAPTURE(delay, layer, n, soft_cap);
  const KvpopScorer scorer = some_scorer(delay, soft_cap, variant);
  const Input input = some_input(n);
  const at::Tensor expected = quadratic(layer, input, delay, soft_cap, variant);  // [heads, n - delay]

  ScorerState state = scorer.initial_state();
  const at::Tensor blocks = scorer.absorb(layer, input.k, input.v, state);
  CHECK(blocks.narrow(1, 0, delay).isnan().all().item<bool>());
  // Scores are of size one to ten; float32 sums of up to 300 products.
  CHECK(largest(blocks.narrow(1, delay, n - delay) - expected) < 1e-5);

  ScorerState stepping = scorer.initial_state();
  SlotCache cache = cache_for(n);
  for (int t = 0; t < n; ++t) {
    const at::Tensor score = kernel_step(scorer, layer, input.k[t], input.v[t], stepping, cache);
    REQUIRE(score.isnan().all().item<bool>() == (t < delay));
    if (t >= delay) REQUIRE(largest(score - expected.select(1, t - delay)) < 1e-5);
  }
}

TEST_CASE("the scorer's blocks, its steps and the quadratic form give the same scores", "[engine][scorer]") {
  const int delay = GENERATE(1, 16, 64), layer = GENERATE(0, 1);
  const int n = GENERATE(70, 128, 300);  // less than a block, one, several and a part
  check_forms(delay, layer, n, GENERATE(0.0, 3.0), {});
}

TEST_CASE("the forms of the scorer's variants give the same scores", "[engine][scorer]") {
  const MlstmVariant variant = test::mlstm_variants()[GENERATE(0u, 1u, 2u, 3u, 4u)];
  CAPTURE(static_cast<int>(variant.feature_map), variant.head_norm, variant.cached_values, variant.skip);
  check_forms(GENERATE(1, 64), /*layer=*/1, GENERATE(70, 300), /*soft_cap=*/3, variant);
}

TEST_CASE("the scorer's state goes on wherever it is cut, in blocks or in steps", "[engine][scorer]") {
  const int n = 200, delay = 16, cut = GENERATE(1, 15, 16, 17, 100, 199);
  CAPTURE(cut);
  const KvpopScorer scorer = some_scorer(delay);
  const Input input = some_input(n);
  ScorerState whole = scorer.initial_state();
  const at::Tensor expected = scorer.absorb(0, input.k, input.v, whole);
  ScorerState parts = scorer.initial_state();
  scorer.absorb(0, input.k.narrow(0, 0, cut), input.v.narrow(0, 0, cut), parts);
  ScorerState stepping = parts;
  for (at::Tensor* tensor : {&stepping.c, &stepping.z, &stepping.m, &stepping.queries, &stepping.direct})
    *tensor = tensor->clone();

  const at::Tensor rest = scorer.absorb(0, input.k.narrow(0, cut, n - cut), input.v.narrow(0, cut, n - cut), parts);
  const int first = std::max(cut, delay);
  CHECK(largest(rest.narrow(1, first - cut, n - first) - expected.narrow(1, first, n - first)) < 1e-5);
  SlotCache cache = cache_for(n);
  for (int t = cut; t < n; ++t) {
    const at::Tensor score = kernel_step(scorer, 0, input.k[t], input.v[t], stepping, cache);
    if (t >= delay) REQUIRE(largest(score - expected.select(1, t)) < 1e-5);
  }
}

TEST_CASE("a scorer of any variant has in the decoder the scores that it was trained by", "[engine][scorer]") {
  const int n = 90, layer = 1;
  ScorerOptions options;
  options.window = options.delay = 16;
  const unsigned which = GENERATE(0u, 1u, 2u, 3u, 4u, 5u);
  if (which > 0) options.mlstm = test::mlstm_variants()[which - 1];
  CAPTURE(which);
  ScorerModule trained(options, test::small_config(), at::kCPU);
  const TensorSource source = formula_source(3);
  for (const auto& spec : trained.parameters().specs())  // a gate's file is bfloat16
    trained.parameters().master(spec.name).copy_(source(spec.name, spec.shape).to(at::kBFloat16));
  trained.parameters().publish();
  const test::TempFolder folder;
  trained.save(folder / "gate", "made up");

  const Input input = some_input(n);
  const at::Tensor expected = trained.scores(layer, input.k.unsqueeze(0), input.v.unsqueeze(0)).detach().squeeze(1);
  const LoadedModel model =
      LoadedModel::random(test::small_config(), 1, {"cpu", "float32", {(folder / "gate").string()}});
  const auto memory = model.scorer()->new_memory();
  LayerTokens tokens;
  tokens.k = input.k, tokens.v = input.v;
  const at::Tensor found = model.scorer()->absorb(layer, tokens, 0, memory.get());
  // In training the last tokens are read at the end of the text. Either is within 1e-5 of the definition.
  CHECK(largest(found.narrow(1, 16, n - 16) - expected.narrow(1, 0, n - 16)) < 2e-5);
}

TEST_CASE("a scorer file of the wrong kind or shape is refused", "[engine][scorer]") {
  const std::filesystem::path sample = test::in_source("samples/models/kvscope-tiny");
  if (!gate_format(sample)) return test::skip("the sample model is not there");
  const LoadedModel model = LoadedModel::load(sample, {"cpu", "float32"});
  CHECK(model.scorer()->kind() == "kvpop_mlstm");
  CHECK(model.scorer()->delay() == 64);
  ModelConfig other = model.config();
  ++other.n_layers;
  other.layers.push_back(other.layers.front());
  CHECK_THROWS_AS(LoadedModel::random(other, 1, {"cpu", "float32", {sample.string()}}), Error);
  CHECK_THROWS_AS(LoadedModel::random(model.config(), 1, {"cpu", "float32", {"/nonexistent"}}), Error);
}

}  // namespace
}  // namespace kvscope::engine
