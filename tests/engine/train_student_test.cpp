// What a student's cache keeps while it is trained: running top-k at once against contests one after another, attention over it and its
// gradients against loops, and who learns from what in KVpop's Algorithm 1.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "engine/jobs/train/distillation.h"
#include "engine/jobs/train/future_target.h"
#include "engine/jobs/train/optimizer.h"
#include "engine/jobs/train/running_top_k.h"
#include "engine/jobs/train/scorer_student.h"
#include "tests/engine/train_support.h"

using namespace kvscope;
using namespace kvscope::engine;

namespace {

constexpr int kBatch = 2, kPositions = 29, kHeads = 4, kKvHeads = 2, kDim = 8;
constexpr double kScale = 0.4;
const CacheBudget kBudget{.n_sink = 2, .window = 5, .top_k = 4};

/// Contests one after another: the token that leaves the window against those that are held.
std::vector<int> contests(const std::vector<double>& priority, const CacheBudget& budget) {
  const int n = static_cast<int>(priority.size());
  std::vector<int> out(priority.size(), n), held;
  for (int q = 0; q < n; ++q) {
    const int newcomer = q - budget.window;
    if (newcomer < budget.n_sink) continue;
    held.push_back(newcomer);
    if (static_cast<int>(held.size()) <= budget.top_k) continue;
    auto worst = held.begin();
    for (auto it = held.begin(); it != held.end(); ++it) {
      if (priority[static_cast<std::size_t>(*it)] <= priority[static_cast<std::size_t>(*worst)]) worst = it;
    }
    out[static_cast<std::size_t>(*worst)] = q;
    held.erase(worst);
  }
  return out;
}

std::vector<double> row_of(const at::Tensor& x, int head, int batch) {
  const at::Tensor row = x.select(0, head).select(0, batch).to(at::kDouble).contiguous();
  return {row.const_data_ptr<double>(), row.const_data_ptr<double>() + row.numel()};
}

struct Inputs {
  at::Tensor q, k, v, priorities, seen;
};

Inputs inputs() {
  at::manual_seed(5);
  const auto options = at::TensorOptions(at::kDouble);
  return {at::randn({kBatch, kPositions, kHeads, kDim}, options),
          at::randn({kBatch, kPositions, kKvHeads, kDim}, options),
          at::randn({kBatch, kPositions, kKvHeads, kDim}, options), at::randn({kKvHeads, kBatch, kPositions}, options),
          at::randn({kBatch, kPositions, kHeads * kDim}, options)};
}

/// The definition in loops: `bias` of a query and a token, -infinity where it is not seen.
template <typename Bias>
at::Tensor by_loops(const Inputs& in, const Bias& bias) {
  at::Tensor out = at::zeros({kBatch, kPositions, kHeads * kDim}, in.q.options());
  for (int b = 0; b < kBatch; ++b) {
    for (int h = 0; h < kHeads; ++h) {
      const int kv = h / (kHeads / kKvHeads);
      for (int q = 0; q < kPositions; ++q) {
        double sum = 0;
        at::Tensor weighted = at::zeros({kDim}, in.q.options());
        for (int t = 0; t <= q; ++t) {
          const double added = bias(kv, b, q, t);
          if (std::isinf(added)) continue;
          const double p = std::exp(kScale * in.q[b][q][h].dot(in.k[b][t][kv]).item<double>() + added);
          sum += p;
          weighted += p * in.v[b][t][kv];
        }
        out[b][q].narrow(0, h * kDim, kDim).copy_(weighted / sum);
      }
    }
  }
  return out;
}

void check_close(const at::Tensor& a, const at::Tensor& b, double tolerance = 1e-10) {
  REQUIRE(a.sizes() == b.sizes());
  CHECK((a - b).abs().max().item<double>() <= tolerance);
}

/// d f / d x[i] by central differences, at a few places of each of the tensors.
void check_gradients(const std::vector<at::Tensor>& leaves, const std::function<at::Tensor()>& f) {
  f().backward();
  for (const at::Tensor& leaf : leaves) {
    const at::Tensor gradient = leaf.grad().clone().flatten();
    double* values = leaf.data_ptr<double>();
    for (std::int64_t i = 3; i < leaf.numel(); i += leaf.numel() / 7) {
      const double h = 1e-6, before = values[i];
      values[i] = before + h;
      const double more = f().item<double>();
      values[i] = before - h;
      const double less = f().item<double>();
      values[i] = before;
      CHECK(gradient[i].item<double>() == Approx((more - less) / (2 * h)).margin(1e-7));
    }
  }
}

at::Tensor some_ids(int n_positions) {
  at::manual_seed(9);
  return at::randint(64, {2, n_positions}, at::kLong);
}

double norm_of(const FlatParameters& parameters) { return parameters.gradients().norm().item<double>(); }

}  // namespace

TEST_CASE("running top-k at once keeps what contests one after another keep, ties included") {
  at::manual_seed(1);
  const bool coarse = GENERATE(false, true);  // coarse numbers meet often
  at::Tensor priorities = at::randn({kKvHeads, kBatch, kPositions}, at::TensorOptions(at::kDouble));
  if (coarse) priorities = priorities.round();
  for (const CacheBudget budget : {kBudget, CacheBudget{0, 1, 1}, CacheBudget{3, 4, 100}, CacheBudget{40, 4, 2}}) {
    CAPTURE(coarse, budget.n_sink, budget.window, budget.top_k);
    const at::Tensor found = running_top_k(priorities, budget);
    for (int head = 0; head < kKvHeads; ++head) {
      for (int row = 0; row < kBatch; ++row) {
        const std::vector<int> expected = contests(row_of(priorities, head, row), budget);
        const std::vector<double> lifetimes = row_of(found, head, row);
        for (std::size_t t = 0; t < expected.size(); ++t) {
          CAPTURE(t);
          CHECK(lifetimes[t] == expected[t]);
        }
      }
    }
  }
}

TEST_CASE("a cutoff is the least priority that a query still sees, and none while nothing is lost") {
  const Inputs in = inputs();
  const at::Tensor lifetimes = running_top_k(in.priorities, kBudget),
                   found = cutoffs(in.priorities, lifetimes, kBudget);
  for (int q = 0; q < kPositions; ++q) {
    const std::vector<double> priority = row_of(in.priorities, 1, 0), alive = row_of(lifetimes, 1, 0);
    double least = INFINITY;
    int n = 0;
    for (int t = kBudget.n_sink; t <= q - kBudget.window; ++t, ++n) {
      if (q < alive[static_cast<std::size_t>(t)]) least = std::min(least, priority[static_cast<std::size_t>(t)]);
    }
    CAPTURE(q);
    CHECK(row_of(found, 1, 0)[static_cast<std::size_t>(q)] == (n > kBudget.top_k ? least : -INFINITY));
  }
}

TEST_CASE("attention over lifetimes is that of loops, and its gradients are differences of it") {
  Inputs in = inputs();
  const at::Tensor lifetimes = running_top_k(in.priorities, kBudget);
  check_close(lifetime_attention(in.q, in.k, in.v, lifetimes, kScale), by_loops(in, [&](int kv, int b, int q, int t) {
                return q < lifetimes[kv][b][t].item<std::int64_t>() ? 0.0 : -INFINITY;
              }));
  for (at::Tensor* x : {&in.q, &in.k, &in.v}) x->requires_grad_(true);
  check_gradients({in.q, in.k, in.v},
                  [&] { return (lifetime_attention(in.q, in.k, in.v, lifetimes, kScale) * in.seen).sum(); });
}

TEST_CASE("attention with a soft boundary is that of loops, and its gradients are differences of it") {
  Inputs in = inputs();
  constexpr double kTemperature = 0.5;
  const at::Tensor lifetimes = running_top_k(in.priorities, kBudget),
                   least = cutoffs(in.priorities, lifetimes, kBudget);
  const auto bias = [&](int kv, int b, int q, int t) {
    const double cutoff = least[kv][b][q].item<double>();
    if (t < kBudget.n_sink || t > q - kBudget.window || std::isinf(cutoff)) return 0.0;
    return -std::log1p(std::exp(-(in.priorities[kv][b][t].item<double>() - cutoff) / kTemperature));
  };
  check_close(soft_top_k_attention(in.q, in.k, in.v, in.priorities, least, kBudget, kTemperature, kScale),
              by_loops(in, bias));
  in.priorities.requires_grad_(true);
  in.q.requires_grad_(true);
  check_gradients({in.priorities, in.q}, [&] {
    const at::Tensor now = cutoffs(in.priorities, running_top_k(in.priorities, kBudget), kBudget);
    return (soft_top_k_attention(in.q, in.k, in.v, in.priorities, now, kBudget, kTemperature, kScale) * in.seen).sum();
  });
}

TEST_CASE("a target by the student's normaliser counts keys that the student does not see, by those that it sees") {
  const Inputs in = inputs();
  const at::Tensor q = in.q.to(at::kFloat), k = in.k.to(at::kFloat), v = in.v.to(at::kFloat);
  const at::Tensor lifetimes = running_top_k(in.priorities, kBudget);
  const int chunk = GENERATE(4, 256);
  const at::Tensor found =
      teacher_attention(q, k, v, kBudget.window, FutureMass::mean, kScale, /*weight=*/{}, lifetimes, chunk).target;
  for (int kv = 0; kv < kKvHeads; ++kv) {
    for (int t = 0; t < kPositions; ++t) {
      double best = -INFINITY;
      for (int h = 2 * kv; h < 2 * kv + 2; ++h) {
        double sum = 0;
        for (int d = t + kBudget.window; d < kPositions; ++d) {
          const auto score = [&](int key) { return kScale * in.q[1][d][h].dot(in.k[1][key][kv]).item<double>(); };
          double seen = 0;
          for (int key = 0; key <= d; ++key) {
            if (d < lifetimes[kv][1][key].item<std::int64_t>()) seen += std::exp(score(key));
          }
          sum += std::exp(score(t)) / seen;
        }
        best = std::max(best, std::log(1e-6 + sum / std::max(1, kPositions - t - kBudget.window)));
      }
      CAPTURE(kv, t);
      CHECK(found[kv][1][t].item<double>() == Approx(best).margin(1e-4));
    }
  }
}

TEST_CASE("distillation from the likeliest tokens is that of loops, and its gradient is a difference of it") {
  at::manual_seed(3);
  const auto options = at::TensorOptions(at::kDouble);
  at::Tensor student = at::randn({7, 6}, options);
  const at::Tensor teacher = at::randn({7, 6}, options), output = at::randn({20, 6}, options);
  const int top = GENERATE(1, 5, 20);
  double expected = 0;
  for (int i = 0; i < 7; ++i) {
    std::vector<std::pair<double, int>> logits;
    double student_sum = 0, teacher_sum = 0;
    for (int token = 0; token < 20; ++token) {
      logits.emplace_back(-teacher[i].dot(output[token]).item<double>(), token);
      student_sum += std::exp(student[i].dot(output[token]).item<double>());
    }
    std::sort(logits.begin(), logits.end());
    for (int j = 0; j < top; ++j) teacher_sum += std::exp(-logits[static_cast<std::size_t>(j)].first);
    for (int j = 0; j < top; ++j) {
      const auto [minus, token] = logits[static_cast<std::size_t>(j)];
      const double log_p = -minus - std::log(teacher_sum);
      expected += std::exp(log_p) * (log_p - student[i].dot(output[token]).item<double>() + std::log(student_sum)) / 7;
    }
  }
  CAPTURE(top);
  CHECK(distillation(student, teacher, output, top, /*chunk=*/3).item<double>() == Approx(expected).epsilon(1e-10));
  student.requires_grad_(true);
  check_gradients({student}, [&] { return distillation(student, teacher, output, top, 3); });
}

TEST_CASE(
    "distillation from a model of other output weights is that from its logits, and the student's weights learn") {
  at::manual_seed(4);
  const auto options = at::TensorOptions(at::kDouble);
  at::Tensor student = at::randn({5, 6}, options), output = at::randn({11, 6}, options);
  const at::Tensor teacher = at::randn({5, 6}, options), of_teacher = at::randn({11, 6}, options);
  const int top = GENERATE(3, 0);
  const auto found = [&] { return distillation(student, teacher, output, top, /*chunk=*/2, of_teacher); };
  at::Tensor log_p = at::matmul(teacher, of_teacher.t()), log_q = at::matmul(student, output.t()).log_softmax(-1);
  if (top > 0) {
    const auto [values, index] = log_p.topk(top, -1);
    log_p = values, log_q = log_q.gather(-1, index);
  }
  log_p = log_p.log_softmax(-1);
  const double expected = (log_p.exp() * (log_p - log_q)).sum().item<double>() / 5;
  CHECK(found().item<double>() == Approx(expected).epsilon(1e-10));
  student.requires_grad_(true), output.requires_grad_(true);
  check_gradients({student, output}, found);
}

TEST_CASE("the loss of the next token is that of loops") {
  at::manual_seed(5);
  const at::Tensor hidden = at::randn({2, 4, 3}), output = at::randn({7, 3}), ids = at::randint(7, {2, 4}, at::kLong);
  double expected = 0;
  for (int row = 0; row < 2; ++row)
    for (int t = 0; t + 1 < 4; ++t) {
      double sum = 0;
      const auto logit = [&](std::int64_t token) { return hidden[row][t].dot(output[token]).item<double>(); };
      for (int token = 0; token < 7; ++token) sum += std::exp(logit(token));
      expected += (std::log(sum) - logit(ids[row][t + 1].item<std::int64_t>())) / 6;
    }
  CHECK(next_token_loss(hidden, output, ids).item<double>() == Approx(expected).epsilon(1e-5));
}

TEST_CASE("a model with an adapter is the model whose matrices are W + scale B A, and begins as it was") {
  const ModelConfig config = test::student_config();
  DecoderModule base(config, 24, at::kCPU, at::kFloat, /*trained=*/false);
  base.initialise(4);
  const std::vector<std::string> targets =
      GENERATE(std::vector<std::string>{}, std::vector<std::string>{"q_proj", "down_proj"});
  LoraAdapter adapter({.rank = 3, .alpha = 6, .targets = targets}, config, at::kCPU, at::kFloat);
  adapter.initialise(7);
  const at::Tensor ids = some_ids(24), plain = base.hidden(ids);
  const DecoderModule adapted = base.adapted(adapter);
  CHECK(at::equal(adapted.hidden(ids).detach(), plain));
  CHECK(adapter.parameters().specs().size() == (targets.empty() ? 7u : 2u) * 2 * 2);

  DecoderModule merged(config, 24, at::kCPU, at::kFloat, /*trained=*/false);
  merged.initialise(4);
  at::manual_seed(2);
  int n_changed = 0;
  for (const auto& spec : merged.parameters().specs()) {
    const auto pair = adapter.of(spec.name);
    if (!pair.a.defined()) continue;
    ++n_changed;
    const c10::NoGradGuard no_grad;
    adapter.parameters()
        .master("base_model.model." + spec.name.substr(0, spec.name.size() - 7) + ".lora_B.weight")
        .normal_(0, 0.1);
    adapter.parameters().publish();
    at::Tensor weight = merged.parameters().master(spec.name);
    weight.add_(at::matmul(pair.b, pair.a), 6.0 / 3);
  }
  merged.parameters().publish();
  CHECK(n_changed == (targets.empty() ? 14 : 4));
  CHECK((adapted.hidden(ids) - merged.hidden(ids)).abs().max().item<double>() < 1e-4);
  CHECK((adapted.hidden(ids) - plain).abs().max().item<double>() > 1e-2);
}

TEST_CASE("in Algorithm 1 scorers learn from the boundary alone and the adapter from the output alone") {
  const ModelConfig config = test::student_config();
  DecoderModule base(config, 64, at::kCPU, at::kFloat, /*trained=*/false);
  base.initialise(4);
  LoraAdapter adapter({.rank = 3, .alpha = 6}, config, at::kCPU, at::kFloat);
  adapter.initialise(7);
  ScorerOptions options{.window = 8, .delay = 8, .n_sink = 2, .top_k = {6}, .queries = 12};
  options.adapter = LoraOptions{.rank = 3};
  options.top_teacher = 16;
  options.sparse_lse = GENERATE(false, true);
  ScorerModule scorer(options, config, at::kCPU);
  scorer.initialise(1);
  Random random(3, 1);
  const StudentLosses losses = joint_lesson(base, base.adapted(adapter), scorer, some_ids(64), options, random);
  CHECK(losses.boundary.item<double>() > 0);
  CHECK(losses.output.item<double>() > 0);  // what the cache has lost
  CHECK(norm_of(scorer.parameters()) > 0);
  CHECK(norm_of(adapter.parameters()) > 0);

  // With a budget of all tokens there is no contest and nothing is lost: neither learns from the other's loss.
  options.top_k = {1000};
  options.queries = 1;
  scorer.parameters().zero_gradients();
  adapter.parameters().zero_gradients();
  at::manual_seed(2);
  {
    const c10::NoGradGuard no_grad;
    adapter.parameters().masters().normal_(0, 0.05);
    adapter.parameters().publish();
  }
  const DecoderModule student = base.adapted(adapter);
  const at::Tensor ids = some_ids(64), teacher = base.hidden(ids);
  distillation(student.hidden(ids).flatten(0, 1), teacher.flatten(0, 1), base.output(), 16).backward();
  CHECK(norm_of(scorer.parameters()) == 0);
  CHECK(norm_of(adapter.parameters()) > 0);
}

TEST_CASE("the base of Algorithm 1 learns from w KL + (1 - w) CE, and its scorers from neither") {
  const ModelConfig config = test::student_config();
  DecoderModule base(config, 64, at::kCPU, at::kFloat, /*trained=*/false);
  DecoderModule student(config, 64, at::kCPU, at::kFloat, /*trained=*/true);
  base.initialise(4), student.initialise(5);
  ScorerOptions options{.window = 8, .delay = 8, .n_sink = 2, .top_k = {6}, .queries = 12};
  options.all_weights = AllWeightsOptions{};
  options.top_teacher = 16;
  ScorerModule scorer(options, config, at::kCPU);
  scorer.initialise(1);
  struct Gradients {
    at::Tensor student, scorer;
    StudentLosses losses;
  };
  const auto lesson = [&](double kl_weight) {
    options.kl_weight = kl_weight;
    student.parameters().zero_gradients(), scorer.parameters().zero_gradients();
    Random random(3, 1);
    const StudentLosses losses = joint_lesson(base, student, scorer, some_ids(64), options, random);
    return Gradients{student.parameters().gradients().clone(), scorer.parameters().gradients().clone(), losses};
  };
  const Gradients kl = lesson(1), next = lesson(0), mixed = lesson(0.1);
  CHECK_FALSE(kl.losses.next.defined());
  CHECK(mixed.losses.next.item<double>() == Approx(next.losses.next.item<double>()));
  CHECK(mixed.losses.output.item<double>() == Approx(kl.losses.output.item<double>()));
  const at::Tensor expected = 0.1 * kl.student + 0.9 * next.student;
  CHECK((mixed.student - expected).norm().item<double>() < 1e-5 * expected.norm().item<double>());  // float32
  CHECK((kl.student - next.student).norm().item<double>() > 0.1 * kl.student.norm().item<double>());
  CHECK(at::equal(kl.scorer, next.scorer));
  CHECK(norm_of(scorer.parameters()) > 0);
}

TEST_CASE("under a budget of all tokens a student is the dense model, and under a small one it is not") {
  const ModelConfig config = test::student_config();
  DecoderModule base(config, 64, at::kCPU, at::kFloat, /*trained=*/false);
  base.initialise(4);
  ScorerOptions options{.window = 8, .delay = 8, .n_sink = 2, .top_k = {6}};
  options.pooled = GENERATE(false, true);
  ScorerModule scorer(options, config, at::kCPU);
  scorer.initialise(1);
  {
    const c10::NoGradGuard no_grad;
    scorer.parameters().masters().normal_(0, 0.5);  // a new one says the same of every token
    scorer.parameters().publish();
  }
  const at::Tensor ids = some_ids(64), dense = base.hidden(ids);
  CHECK((hidden_under(base, scorer, ids, options, 1000) - dense).abs().max().item<double>() < 1e-4);
  const at::Tensor sparse = hidden_under(base, scorer, ids, options, 6);
  CHECK((sparse - dense).narrow(1, 0, 16).abs().max().item<double>() < 1e-4);  // nothing is lost yet
  CHECK((sparse - dense).abs().max().item<double>() > 1e-3);
}

TEST_CASE("through a soft boundary scorers learn from the model's output, and the base stays as it is") {
  const ModelConfig config = test::student_config();
  DecoderModule base(config, 64, at::kCPU, at::kFloat, /*trained=*/false);
  base.initialise(4);
  const at::Tensor before = base.parameters().masters().clone();
  ScorerOptions options{.window = 8, .delay = 8, .n_sink = 2, .top_k = {6}, .queries = 12};
  options.output_weight = 1;
  ScorerModule scorer(options, config, at::kCPU);
  scorer.initialise(1);
  AdamW optimizer(scorer.parameters(), {.learning_rate = 3e-3, .weight_decay = 0, .clip = 0});
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    Random random(3, 1);
    last = output_lesson(base, base, scorer, some_ids(64), options, random).item<double>();
    if (step == 0) first = last;
    CHECK(norm_of(scorer.parameters()) > 0);
    optimizer.step(3e-3);
  }
  CHECK(last < 0.9 * first);
  CHECK(at::equal(base.parameters().masters(), before));
}

TEST_CASE("through a soft boundary an adapter learns beside the scorers, each the better for the other") {
  const ModelConfig config = test::student_config();
  DecoderModule base(config, 64, at::kCPU, at::kFloat, /*trained=*/false);
  base.initialise(4);
  ScorerOptions options{.window = 8, .delay = 8, .n_sink = 2, .top_k = {6}, .queries = 12};
  options.output_weight = 1;
  // The distance after some steps of whoever learns.
  const auto learned = [&](bool scorers_learn, bool adapter_learns) {
    LoraAdapter adapter({.rank = 4, .alpha = 8}, config, at::kCPU, at::kFloat);
    adapter.initialise(7);
    const DecoderModule student = base.adapted(adapter);
    ScorerModule scorer(options, config, at::kCPU);
    scorer.initialise(1);
    AdamW of_scorer(scorer.parameters(), {.learning_rate = 3e-3, .weight_decay = 0, .clip = 0});
    AdamW of_adapter(adapter.parameters(), {.learning_rate = 3e-3, .weight_decay = 0, .clip = 0});
    double last = 0;
    for (int step = 0; step < 40; ++step) {
      Random random(3, 1);
      last = output_lesson(base, student, scorer, some_ids(64), options, random).item<double>();
      CHECK(norm_of(scorer.parameters()) > 0);
      CHECK(norm_of(adapter.parameters()) > 0);
      // A step also clears the gradients.
      of_scorer.step(scorers_learn ? 3e-3 : 0);
      of_adapter.step(adapter_learns ? 3e-3 : 0);
    }
    return last;
  };
  const double neither = learned(false, false), scorers = learned(true, false), adapter = learned(false, true);
  const double both = learned(true, true);
  CHECK(scorers < neither);
  CHECK(adapter < neither);
  CHECK(both < std::min(scorers, adapter));
}

TEST_CASE("on CUDA a student's attention and its gradients are those of the CPU, within bfloat16's rounding",
          "[cuda]") {
  const auto cuda = test::cuda_or_skip();
  if (!cuda) return;
  const at::Device device = *cuda;
  constexpr int kLong = 600, kWide = 64;
  const CacheBudget budget{.n_sink = 4, .window = 32, .top_k = 64};
  at::manual_seed(5);
  const at::Tensor q = at::randn({2, kLong, kHeads, kWide}), k = at::randn({2, kLong, kKvHeads, kWide}),
                   v = at::randn({2, kLong, kKvHeads, kWide}), p = at::randn({kKvHeads, 2, kLong}),
                   seen = at::randn({2, kLong, kHeads * kWide});
  const at::Tensor lifetimes = running_top_k(p, budget);
  CHECK(at::equal(running_top_k(p.to(device), budget).cpu(), lifetimes));
  const auto run = [&](at::Device where, at::ScalarType type, bool soft) {
    const auto leaf = [&](const at::Tensor& x, at::ScalarType as) {
      return x.to(where).to(as).detach().requires_grad_(true);
    };
    const at::Tensor a = leaf(q, type), b = leaf(k, type), c = leaf(v, type), scores = leaf(p, at::kFloat);
    const at::Tensor out =
        soft ? soft_top_k_attention(a, b, c, scores, cutoffs(scores, running_top_k(scores, budget), budget), budget,
                                    0.5, 0.125)
             : lifetime_attention(a, b, c, lifetimes.to(where), 0.125);
    (out.to(at::kFloat) * seen.to(where)).sum().backward();
    std::vector<at::Tensor> all{out, a.grad(), b.grad(), c.grad()};
    if (soft) all.push_back(scores.grad());
    for (at::Tensor& x : all) x = x.detach().to(at::kCPU).to(at::kFloat);
    return all;
  };
  const bool soft = GENERATE(false, true);
  const auto exact = run(at::kCPU, at::kFloat, soft), rough = run(at::kCPU, at::kBFloat16, soft),
             fast = run(device, at::kBFloat16, soft);
  const auto distance = [](const at::Tensor& a, const at::Tensor& b) {
    return ((a - b).norm() / b.norm()).item<double>();
  };
  for (std::size_t i = 0; i < exact.size(); ++i) {
    INFO("of output, q, k, v, scores: " << i << ", soft " << soft);
    CHECK(distance(fast[i], exact[i]) < 2 * distance(rough[i], exact[i]) + 0.01);
  }
}
