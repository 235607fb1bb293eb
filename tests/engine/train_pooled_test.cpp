// One budget for all heads of a student against loops over every head's tokens, and what is learnt under it.

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "engine/jobs/train/optimizer.h"
#include "engine/jobs/train/pooled_cutoff.h"
#include "engine/jobs/train/scorer_student.h"
#include "tests/engine/train_support.h"

using namespace kvscope;
using namespace kvscope::engine;

namespace {

constexpr int kHeads = 3, kBatch = 2, kPositions = 37;
const CacheBudget kBudget{.n_sink = 2, .window = 5, .top_k = 4};

at::Tensor some_priorities() {
  at::manual_seed(12);
  // A head whose tokens are worth more than the others' keeps most of the budget.
  return at::randn({kHeads, kBatch, kPositions}) + at::arange(kHeads, at::kFloat).view({kHeads, 1, 1});
}

/// Priorities of all heads' tokens that compete at q, the greatest first.
std::vector<float> competing(const at::Tensor& priorities, int b, int q) {
  std::vector<float> all;
  for (int h = 0; h < kHeads; ++h)
    for (int t = kBudget.n_sink; t <= q - kBudget.window; ++t) all.push_back(priorities[h][b][t].item<float>());
  std::sort(all.begin(), all.end(), std::greater<>());
  return all;
}

at::Tensor least_of(const at::Tensor& priorities, const PooledCutoff& found) {
  const at::Tensor of_tokens = priorities.gather(2, found.token.expand({kHeads, -1, -1}));
  return found.of_queries(of_tokens.gather(0, found.head.unsqueeze(0)).squeeze(0));
}

}  // namespace

TEST_CASE("the pooled cutoff is the last of all heads' best, at every query or at the last point before it") {
  const at::Tensor priorities = some_priorities();
  const int stride = GENERATE(1, 4);
  const PooledCutoff found = pooled_cutoff(priorities, kBudget, stride);
  const at::Tensor least = least_of(priorities, found);
  REQUIRE(least.sizes() == at::IntArrayRef({1, kBatch, kPositions}));
  const int first = kBudget.n_sink + kBudget.window + kBudget.top_k;  // the first query with more than the budget
  for (int b = 0; b < kBatch; ++b) {
    for (int q = 0; q < kPositions; ++q) {
      CAPTURE(stride, b, q);
      const float now = least[0][b][q].item<float>();
      if (q < first) {
        CHECK(now == -INFINITY);
        continue;
      }
      const int point = std::max(first, q / stride * stride);
      CHECK(now == competing(priorities, b, point)[kHeads * kBudget.top_k - 1]);
    }
  }
}

TEST_CASE("under the pooled cutoff a query sees what one budget for all heads keeps, and nobody comes back") {
  const at::Tensor priorities = some_priorities();
  const at::Tensor lifetimes =
      lifetimes_under(priorities, least_of(priorities, pooled_cutoff(priorities, kBudget, 1)), kBudget);
  std::vector<int> kept(kHeads, 0);
  for (int b = 0; b < kBatch; ++b) {
    for (int q = 0; q < kPositions; ++q) {
      const std::vector<float> all = competing(priorities, b, q);
      int n_seen = 0;
      for (int h = 0; h < kHeads; ++h) {
        for (int t = 0; t <= q; ++t) {
          CAPTURE(b, q, h, t);
          const bool competes = t >= kBudget.n_sink && t <= q - kBudget.window;
          const auto rank = std::find(all.begin(), all.end(), priorities[h][b][t].item<float>()) - all.begin();
          const bool sees = q < lifetimes[h][b][t].item<std::int64_t>();
          CHECK(sees == (!competes || rank < kHeads * kBudget.top_k));
          if (competes && sees) ++n_seen, ++kept[static_cast<std::size_t>(h)];
        }
      }
      CHECK(n_seen == std::min(static_cast<int>(all.size()), kHeads * kBudget.top_k));
    }
  }
  CHECK(kept[2] > 2 * kept[0]);
}

TEST_CASE("gradients of a pooled cutoff go to the tokens that stand at it") {
  const at::Tensor priorities = some_priorities().requires_grad_(true);
  const PooledCutoff found = pooled_cutoff(priorities, kBudget, 1);
  least_of(priorities, found).narrow(2, kPositions - 1, 1).sum().backward();
  const at::Tensor gradient = priorities.grad();
  CHECK(gradient.sum().item<float>() == kBatch);
  for (int b = 0; b < kBatch; ++b) {
    const auto last = found.token.size(1) - 1;
    const auto head = found.head[b][last].item<std::int64_t>(), token = found.token[b][last].item<std::int64_t>();
    CHECK(gradient[head][b][token].item<float>() == 1);
  }
}

TEST_CASE("through a pooled soft boundary scorers and an adapter learn from the model's output") {
  ModelConfig model = test::student_config();
  const bool hybrid = GENERATE(false, true);  // with local layers before, between and after those that share the budget
  if (hybrid) {
    model.n_layers = 5;
    model.set_family(*find_family("Gemma3ForCausalLM"));
    for (const std::size_t layer : {0, 2, 4}) model.layers[layer].window = 12;
  }
  DecoderModule base(model, 64, at::kCPU, at::kFloat, /*trained=*/false);
  base.initialise(4);
  ScorerOptions options{.window = 8, .delay = 8, .n_sink = 2, .top_k = {6}, .queries = 12};
  options.output_weight = 1;
  options.pooled = true;
  LoraAdapter adapter({.rank = 4, .alpha = 8}, model, at::kCPU, at::kFloat);
  adapter.initialise(7);
  const bool joint = GENERATE(false, true);
  const DecoderModule student = joint ? base.adapted(adapter) : base;
  ScorerModule scorer(options, model, at::kCPU), at_start(options, model, at::kCPU);
  scorer.initialise(1);
  at_start.initialise(1);
  AdamW optimizer(scorer.parameters(), {.learning_rate = 3e-3, .weight_decay = 0, .clip = 0});
  if (joint) optimizer.add(adapter.parameters(), 1);
  at::manual_seed(9);
  const at::Tensor ids = at::randint(64, {2, 64}, at::kLong);
  double first = 0, last = 0, kl = 0;
  for (int step = 0; step < 60; ++step) {
    Random random(3, 1);
    if (joint) kl = joint_lesson(base, student, scorer, ids, options, random).output.item<double>();
    last = output_lesson(base, student, scorer, ids, options, random).item<double>();
    if (step == 0) first = last;
    optimizer.step(3e-3);
  }
  CHECK(last < 0.9 * first);
  if (joint) CHECK(kl > 0);
  for (const auto& spec : scorer.parameters().specs()) {  // [n_layers, ...]: nothing is learnt where nothing is decided
    CAPTURE(spec.name);
    const at::Tensor of_layers = scorer.parameters().master(spec.name);
    const at::Tensor start = at_start.parameters().master(spec.name);
    for (int layer = 0; layer < model.n_layers && hybrid; ++layer) {
      if (model.is_local(layer)) CHECK(at::equal(of_layers[layer], start[layer]));
    }
  }
}
