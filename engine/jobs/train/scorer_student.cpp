#include "engine/jobs/train/scorer_student.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "engine/jobs/train/boundary_loss.h"
#include "engine/jobs/train/distillation.h"
#include "engine/jobs/train/future_target.h"
#include "engine/jobs/train/pooled_cutoff.h"
#include "engine/jobs/train/running_top_k.h"
#include "engine/jobs/train/weighted_cross_entropy.h"

namespace kvscope::engine {
namespace {

constexpr std::int64_t kChunk = 2048;  // tokens whose logits are there at once

/// One budget for all layers of a step: what a cache of that size would have computed.
CacheBudget draw_budget(const ScorerOptions& options, Random& random) {
  return {options.n_sink, options.window, options.top_k[random.below(options.top_k.size())]};
}

/// The cutoffs of all queries under one budget for all heads, [1, B, T], by what the scorer says of the student's dense keys and
/// values. Gradients go to the scores of the tokens that stand at them, as under a budget of each head.
at::Tensor pooled_least(const DecoderModule& student, const ScorerModule& scorer, const at::Tensor& ids,
                        const CacheBudget& budget) {
  const ModelConfig& model = student.config();
  std::vector<int> layers;  // that share the budget
  std::vector<at::Tensor> k, v, priorities;
  PooledCutoff cutoff;
  {
    const c10::NoGradGuard no_grad;
    at::Tensor x = student.embed(ids);
    for (int layer = 0; layer < model.n_layers; ++layer) {
      const auto heads = student.project(layer, x);
      if (!model.is_local(layer)) {
        layers.push_back(layer), k.push_back(heads.k), v.push_back(heads.v);
        priorities.push_back(all_priorities(scorer, layer, heads.k, heads.v));
      }
      x = student.finish(layer, x, student.attend(layer, heads));
    }
    cutoff = pooled_cutoff(at::cat(priorities), budget, kPooledStride);
  }
  std::vector<at::Tensor> at_cutoff;  // of layers in a row together
  for (std::size_t first = 0, end = 0; first < layers.size(); first = end) {
    while (end < layers.size() && layers[end] - layers[first] == static_cast<int>(end - first)) ++end;
    const int n = static_cast<int>(end - first);
    const LayerRange range(layers[first], n);
    const auto of_range = [&](const std::vector<at::Tensor>& all) {
      return at::cat(at::ArrayRef<at::Tensor>(all).slice(first, static_cast<std::size_t>(n)), 2);
    };
    const at::Tensor tokens = cutoff.token.expand({n * k.front().size(2), -1, -1}).contiguous();  // [heads, B, P]
    const at::Tensor raw = scorer.scores(range, of_range(k), of_range(v), tokens);
    at_cutoff.push_back(scorer.priorities(range, raw, tokens));
  }
  return cutoff.of_queries(at::cat(at_cutoff).gather(0, cutoff.head.unsqueeze(0)).squeeze(0));
}

at::Tensor dense_hidden(const DecoderModule& base, const at::Tensor& ids) {
  const c10::NoGradGuard no_grad;
  return base.hidden(ids);
}

/// A local layer, in which nothing is decided.
at::Tensor through_window(const DecoderModule& student, int layer, const at::Tensor& x,
                          const DecoderModule::Heads& heads) {
  return student.finish(layer, x, student.attend(layer, heads));
}

}  // namespace

int n_global_layers(const ModelConfig& model) {
  int n = 0;
  for (int layer = 0; layer < model.n_layers; ++layer) n += model.is_local(layer) ? 0 : 1;
  return n;
}

at::Tensor next_token_loss(const at::Tensor& hidden, const at::Tensor& output, const at::Tensor& ids) {
  const auto n = ids.size(1) - 1;
  const at::Tensor before = hidden.narrow(1, 0, n).flatten(0, 1), target = ids.narrow(1, 1, n).flatten();
  const at::Tensor share = at::full({target.size(0)}, 1.0 / static_cast<double>(target.size(0)),
                                    at::TensorOptions(ids.device()).dtype(at::kFloat));
  return weighted_cross_entropy(before, output, target, share).loss;
}

at::Tensor teach_boundary(const ScorerModule& scorer, LayerRange layers, const at::Tensor& k, const at::Tensor& v,
                          const at::Tensor& target, int top_k, const ScorerOptions& options, Random& random) {
  const auto queries = sample_queries(random, options, top_k, static_cast<int>(k.size(1)));
  const BoundaryPairs pairs = boundary_pairs(target, queries, top_k, options, layers.count);
  const at::Tensor tokens = at::cat({pairs.newcomer, pairs.boundary}, 2);  // [HK, B, 2Q]
  const auto halves = scorer.priorities(layers, scorer.scores(layers, k, v, tokens), tokens).chunk(2, 2);
  const at::Tensor loss = boundary_loss(halves[0], halves[1], pairs, options.temperature);
  loss.backward();
  return loss.detach();
}

at::Tensor all_priorities(const ScorerModule& scorer, LayerRange layers, const at::Tensor& k, const at::Tensor& v) {
  const at::Tensor raw = scorer.scores(layers, k, v);
  return scorer.priorities(layers, raw, at::arange(raw.size(2), at::kLong).to(raw.device()).expand_as(raw));
}

at::Tensor hidden_under(const DecoderModule& student, const ScorerModule& scorer, const at::Tensor& ids,
                        const ScorerOptions& options, int top_k) {
  const c10::NoGradGuard no_grad;
  const CacheBudget budget{options.n_sink, options.window, top_k};
  const at::Tensor least = options.pooled ? pooled_least(student, scorer, ids, budget) : at::Tensor();
  at::Tensor x = student.embed(ids);
  for (int layer = 0; layer < student.config().n_layers; ++layer) {
    const auto heads = student.project(layer, x);
    if (student.config().is_local(layer)) {
      x = through_window(student, layer, x, heads);
      continue;
    }
    const at::Tensor priorities = all_priorities(scorer, layer, heads.k, heads.v);
    const at::Tensor lifetimes =
        options.pooled ? lifetimes_under(priorities, least, budget) : running_top_k(priorities, budget);
    x = student.finish(
        layer, x, lifetime_attention(heads.q, heads.k, heads.v, lifetimes, student.config().attention_scale(layer)));
  }
  return student.final_norm(x);
}

StudentLosses joint_lesson(const DecoderModule& base, const DecoderModule& student, const ScorerModule& scorer,
                           const at::Tensor& ids, const ScorerOptions& options, Random& random) {
  const CacheBudget budget = draw_budget(options, random);
  const at::Tensor teacher = dense_hidden(base, ids);
  const int n_layers = base.config().n_layers, n_global = n_global_layers(base.config());
  const at::Tensor least = options.pooled ? pooled_least(student, scorer, ids, budget).detach() : at::Tensor();
  at::Tensor boundary = at::zeros({}, at::TensorOptions(ids.device()).dtype(at::kFloat));
  at::Tensor x = student.embed(ids);
  for (int layer = 0; layer < n_layers; ++layer) {
    const auto heads = student.project(layer, x);
    if (base.config().is_local(layer)) {
      x = through_window(student, layer, x, heads);
      continue;
    }
    const double scale = base.config().attention_scale(layer);
    at::Tensor lifetimes, target;
    {
      const c10::NoGradGuard no_grad;
      const at::Tensor priorities = all_priorities(scorer, layer, heads.k, heads.v);
      lifetimes = options.pooled ? lifetimes_under(priorities, least, budget) : running_top_k(priorities, budget);
      const at::Tensor weight = value_weight(heads.v, options.weight, base.output_projection(layer));
      target = teacher_attention(heads.q, heads.k, heads.v, options.window, options.mass, scale, weight,
                                 options.sparse_lse ? lifetimes : at::Tensor())
                   .target;
    }
    boundary += teach_boundary(scorer, layer, heads.k, heads.v, target, budget.top_k, options, random) / n_global;
    x = student.finish(layer, x, lifetime_attention(heads.q, heads.k, heads.v, lifetimes, scale));
  }
  const at::Tensor hidden = student.final_norm(x);
  const at::Tensor kl = distillation(hidden.flatten(0, 1), teacher.flatten(0, 1), student.output(), options.top_teacher,
                                     kChunk, base.output());
  StudentLosses losses{.boundary = boundary, .output = kl.detach(), .next = {}, .distance = {}};
  if (options.kl_weight == 1) {
    kl.backward();
    return losses;
  }
  const at::Tensor next = next_token_loss(hidden, student.output(), ids);
  (options.kl_weight * kl + (1 - options.kl_weight) * next).backward();
  losses.next = next.detach();
  return losses;
}

at::Tensor output_lesson(const DecoderModule& base, const DecoderModule& student, const ScorerModule& scorer,
                         const at::Tensor& ids, const ScorerOptions& options, Random& random) {
  const CacheBudget budget = draw_budget(options, random);
  const at::Tensor dense = dense_hidden(base, ids).to(at::kFloat);
  const at::Tensor pooled = options.pooled ? pooled_least(student, scorer, ids, budget) : at::Tensor();
  // LibTorch's attention cannot give the gradient of a bias alone: one of its other inputs must want one, and all of them come from here.
  at::Tensor x = base.embed(ids).detach().requires_grad_(true);
  for (int layer = 0; layer < base.config().n_layers; ++layer) {
    const auto heads = student.project(layer, x);
    if (base.config().is_local(layer)) {
      x = through_window(student, layer, x, heads);
      continue;
    }
    const at::Tensor priorities = all_priorities(scorer, layer, heads.k, heads.v);
    const at::Tensor least = options.pooled ? pooled : cutoffs(priorities, running_top_k(priorities, budget), budget);
    const at::Tensor attention = soft_top_k_attention(heads.q, heads.k, heads.v, priorities, least, budget,
                                                      options.temperature, base.config().attention_scale(layer));
    x = student.finish(layer, x, attention);
  }
  const at::Tensor distance = (student.final_norm(x).to(at::kFloat) - dense).square().mean() / dense.square().mean();
  (distance * options.output_weight).backward();
  return distance.detach();
}

}  // namespace kvscope::engine
