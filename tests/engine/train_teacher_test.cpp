// The teacher's target, the scorer and the boundary loss against plain loops.

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/jobs/train/boundary_loss.h"
#include "engine/jobs/train/future_target.h"
#include "engine/jobs/train/scorer_module.h"
#include "engine/jobs/train/scorer_student.h"
#include "tests/engine/train_support.h"

using namespace kvscope;
using namespace kvscope::engine;

namespace {

constexpr int kBatch = 2, kPositions = 21, kHeads = 4, kKvHeads = 2, kDim = 8, kWindow = 5;

/// Softmax rows of one head in double: p[q][t].
std::vector<std::vector<double>> dense_rows(const at::Tensor& q, const at::Tensor& k) {  // [T, D] each
  std::vector<std::vector<double>> p(kPositions, std::vector<double>(kPositions, 0));
  for (int i = 0; i < kPositions; ++i) {
    double sum = 0;
    for (int t = 0; t <= i; ++t) {
      double dot = 0;
      for (int d = 0; d < kDim; ++d) dot += q[i][d].item<double>() * k[t][d].item<double>();
      sum += p[i][t] = std::exp(dot / std::sqrt(static_cast<double>(kDim)));
    }
    for (int t = 0; t <= i; ++t) p[i][t] /= sum;
  }
  return p;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

/// phi(x W) of one row.
std::vector<double> feature_row(const at::Tensor& x, const at::Tensor& w) {
  const at::Tensor z = at::matmul(x.to(at::kDouble), w.to(at::kDouble));
  const at::Tensor phi = at::cat({z.softmax(-1), (-z).softmax(-1)});
  return {phi.data_ptr<double>(), phi.data_ptr<double>() + phi.numel()};
}

}  // namespace

TEST_CASE("the future-attention target equals column sums of the softmax matrix, for every chunk size") {
  const auto chunk = GENERATE(1, 4, 8, 64);
  const auto kind = GENERATE(FutureMass::mean, FutureMass::sum, FutureMass::rms, FutureMass::max);
  at::manual_seed(3);
  const at::Tensor q = 2 * at::randn({kBatch, kPositions, kHeads, kDim});
  const at::Tensor k = at::randn({kBatch, kPositions, kKvHeads, kDim}), v = at::randn_like(k);
  const TeacherAttention teacher = teacher_attention(q, k, v, kWindow, kind, 1 / std::sqrt(static_cast<double>(kDim)),
                                                     /*weight=*/{}, /*lifetimes=*/{}, chunk);
  const at::Tensor dense =
      at::scaled_dot_product_attention(q.transpose(1, 2), k.repeat_interleave(2, 2).transpose(1, 2),
                                       v.repeat_interleave(2, 2).transpose(1, 2), {}, 0, true);
  const at::Tensor difference = teacher.output - dense.transpose(1, 2).reshape({kBatch, kPositions, -1});
  CHECK(difference.abs().max().item<double>() < 1e-5);  // float32 sums of 21 terms of order 1
  for (int b = 0; b < kBatch; ++b) {
    for (int h = 0; h < kKvHeads; ++h) {
      const auto first = dense_rows(q[b].select(1, 2 * h), k[b].select(1, h));
      const auto second = dense_rows(q[b].select(1, 2 * h + 1), k[b].select(1, h));
      for (int t = 0; t < kPositions; ++t) {
        const double n_future = std::max(1, kPositions - (t + kWindow));
        const auto mass = [&](const auto& rows) {
          double sum = 0, squares = 0, most = 0;
          for (int i = t + kWindow; i < kPositions; ++i) {
            sum += rows[i][t];
            squares += rows[i][t] * rows[i][t];
            most = std::max(most, static_cast<double>(rows[i][t]));
          }
          return kind == FutureMass::mean  ? sum / n_future
                 : kind == FutureMass::sum ? sum
                 : kind == FutureMass::rms ? std::sqrt(squares / n_future)
                                           : most;
        };
        const double expected = std::log(1e-6 + std::max(mass(first), mass(second)));
        CHECK(teacher.target[h][b][t].item<double>() == Approx(expected).margin(1e-4));  // a log of float32 sums
      }
    }
  }
}

TEST_CASE("the scorer's quadratic form equals the plain loops of its definition") {
  constexpr int kDelay = 4;
  ModelConfig model;
  model.n_layers = 2;
  model.n_kv_heads = kKvHeads;
  model.head_dim = kDim;
  ScorerOptions options;
  options.delay = kDelay;
  ScorerModule scorer(options, model, at::kCPU);
  scorer.initialise(5);
  at::manual_seed(4);
  // Initialised, the output is zero and every score with it; give all parameters something to say.
  scorer.parameters().masters().add_(0.3 * at::randn_like(scorer.parameters().masters()));
  scorer.parameters().publish();
  const at::Tensor k = at::randn({kBatch, kPositions, kKvHeads, kDim}), v = at::randn_like(k);
  const at::Tensor all = scorer.scores(1, k, v).detach();
  const auto parameter = [&](const char* name, int head) { return scorer.parameters().master(name)[1][head]; };
  for (int b = 0; b < kBatch; ++b) {
    for (int h = 0; h < kKvHeads; ++h) {
      const at::Tensor x = at::cat({k[b].select(1, h), v[b].select(1, h)}, -1).to(at::kDouble);  // [T, 2D]
      const auto gate = [&](const char* weight, const char* bias, int t) {
        return at::dot(x[t], parameter(weight, h).squeeze(-1).to(at::kDouble)).item<double>() +
               parameter(bias, h).item<double>();
      };
      for (int t = 0; t < kPositions; ++t) {
        const int last = std::min(t + kDelay, kPositions - 1);
        const auto query = feature_row(x[t], parameter("wq", h));
        std::vector<double> log_weight(last + 1);
        for (int j = 0; j <= last; ++j) {
          log_weight[j] = gate("gi", "bi", j);
          for (int i = j + 1; i <= last; ++i) log_weight[j] -= std::log1p(std::exp(-gate("gf", "bf", i)));
        }
        const double most = *std::max_element(log_weight.begin(), log_weight.end());
        std::vector<double> read(kDim, 0);
        double norm = 0;
        for (int j = 0; j <= last; ++j) {
          const auto key = feature_row(x[j], parameter("wk", h));
          double weight = 0;
          for (int d = 0; d < kDim; ++d) weight += query[d] * key[d];
          weight *= std::exp(log_weight[j] - most);
          norm += weight;
          const at::Tensor value = at::matmul(x[j], parameter("wv", h).to(at::kDouble));
          for (int d = 0; d < kDim; ++d) read[d] += weight * value[d].item<double>();
        }
        double score = parameter("b", h).item<double>();
        const at::Tensor out = parameter("out", h);
        for (int d = 0; d < kDim; ++d) score += silu(read[d] / std::max(norm, 1e-6)) * out[d].item<double>();
        for (int d = 0; d < 2 * kDim; ++d) score += x[t][d].item<double>() * out[kDim + d].item<double>();
        CHECK(all[h][b][t].item<double>() == Approx(score).margin(2e-5));
      }
    }
  }
  const at::Tensor some = at::tensor({20, 3, 3, 0}, at::kLong).expand({kKvHeads, kBatch, 4}).contiguous();
  const at::Tensor chosen = scorer.scores(1, k, v, some).detach();
  CHECK((chosen - all.gather(2, some)).abs().max().item<double>() < 1e-5);
}

TEST_CASE("sampled queries see a full cache and a newcomer") {
  ScorerOptions options;
  options.late_share = GENERATE(0.0, 0.5, 1.0);
  options.queries = 4000;
  Random random(11);
  const int top_k = 30, n_positions = 300, first = options.n_sink + options.window + top_k;
  double mean = 0;
  for (const auto query : sample_queries(random, options, top_k, n_positions)) {
    REQUIRE(query >= first);
    REQUIRE(query < n_positions);
    mean += static_cast<double>(query - first) / (n_positions - first) / options.queries;
  }
  // Uniform has mean 1/2, linearly rising density 2/3; 4000 draws have a deviation below 0.005.
  CHECK(mean == Approx(0.5 + options.late_share / 6).margin(0.02));
}

TEST_CASE("boundary pairs equal a sort of the teacher's eligible tokens") {
  ScorerOptions options;
  options.n_sink = 2;
  options.window = 4;
  options.margin = GENERATE(MarginWeight::none, MarginWeight::sigmoid, MarginWeight::proportional);
  const int top_k = 5, n_positions = 40;
  at::manual_seed(6);
  const at::Tensor target = at::randn({3, 2, n_positions});
  const std::vector<std::int64_t> queries = {11, 12, 20, 30, 39};
  const BoundaryPairs pairs = boundary_pairs(target, queries, top_k, options);
  for (int h = 0; h < 3; ++h) {
    for (int b = 0; b < 2; ++b) {
      for (std::size_t i = 0; i < queries.size(); ++i) {
        std::vector<std::pair<float, std::int64_t>> eligible;
        for (std::int64_t t = options.n_sink; t <= queries[i] - options.window; ++t) {
          eligible.push_back({target[h][b][t].item<float>(), t});
        }
        std::sort(eligible.rbegin(), eligible.rend());
        const auto boundary = eligible[top_k - 1];
        const auto newcomer = queries[i] - options.window;
        CHECK(pairs.boundary[h][b][i].item<std::int64_t>() == boundary.second);
        CHECK(pairs.newcomer[h][b][i].item<std::int64_t>() == newcomer);
        const bool kept = target[h][b][newcomer].item<float>() >= boundary.first;
        CHECK(pairs.label[h][b][i].item<float>() == (kept ? 1 : -1));
        CHECK((pairs.weight[h][b][i].item<float>() > 0) == (newcomer != boundary.second));
      }
    }
  }
}

TEST_CASE("keep and drop decisions weigh the same for every head without margins") {
  ScorerOptions options;
  options.n_sink = 0;
  options.window = 2;
  options.margin = MarginWeight::none;
  options.balance_min = 0;
  options.balance_max = 1e6;
  at::manual_seed(7);
  // Targets that fall with position for head 0 and rise for head 1, with noise: mostly drops there, mostly keeps here.
  const at::Tensor slope = at::arange(200, at::kFloat) * 0.02;
  const at::Tensor target = at::stack({-slope, slope}).unsqueeze(1) + at::randn({2, 3, 200});
  std::vector<std::int64_t> queries;
  for (int q = 40; q < 200; ++q) queries.push_back(q);
  const BoundaryPairs pairs = boundary_pairs(target, queries, 20, options);
  for (int h = 0; h < 2; ++h) {
    const at::Tensor weight = pairs.weight[h], keep = (pairs.label[h] > 0).to(at::kFloat);
    const double kept = (weight * keep).sum().item<double>(), dropped = (weight * (1 - keep)).sum().item<double>();
    REQUIRE(kept > 0);
    CHECK(kept == Approx(dropped).epsilon(1e-4));
    const double n_valid = (pairs.newcomer[h] != pairs.boundary[h]).sum().item<double>();
    CHECK(kept + dropped == Approx(n_valid).epsilon(1e-4));  // mean 1 over valid contests
  }
}

TEST_CASE("the boundary loss pushes the newcomer up where the teacher keeps it, and down where it does not") {
  BoundaryPairs pairs;
  pairs.newcomer = at::full({1, 1, 3}, 9, at::kLong);
  pairs.boundary = at::tensor({4, 5, 9}, at::kLong).view({1, 1, 3});
  pairs.label = at::tensor({1.0f, -1.0f, 1.0f}).view({1, 1, 3});
  pairs.weight = at::tensor({1.0f, 1.0f, 0.0f}).view({1, 1, 3});
  at::Tensor newcomer = at::zeros({1, 1, 3}).set_requires_grad(true);
  at::Tensor boundary = at::zeros({1, 1, 3}).set_requires_grad(true);
  const at::Tensor loss = boundary_loss(newcomer, boundary, pairs, 1);
  CHECK(loss.item<double>() == Approx(std::log(2.0)));  // equal scores; the third contest is of one token with itself
  loss.backward();
  CHECK(newcomer.grad()[0][0][0].item<double>() == Approx(-0.25));
  CHECK(newcomer.grad()[0][0][1].item<double>() == Approx(0.25));
  CHECK(newcomer.grad()[0][0][2].item<double>() == 0);
  CHECK((newcomer.grad() + boundary.grad()).abs().max().item<double>() == 0);
}

TEST_CASE("oracle recall is 1 for the target itself and the overlap of sets for other scores") {
  at::manual_seed(8);
  const int n_sink = 1, window = 3, top_k = 6, n_positions = 90;
  const at::Tensor target = at::randn({2, 2, n_positions}), scores = at::randn({2, 2, n_positions});
  CHECK((oracle_recall(3 * target + 1, target, n_sink, window, top_k) - 1).abs().max().item<double>() < 1e-6);
  const at::Tensor recall = oracle_recall(scores, target, n_sink, window, top_k);
  for (int h = 0; h < 2; ++h) {
    double shared = 0, all = 0;
    for (int b = 0; b < 2; ++b) {
      for (int q = n_sink + window + top_k; q < n_positions; ++q) {
        const auto kept = [&](const at::Tensor& row) {
          std::vector<std::pair<float, int>> eligible;
          for (int t = n_sink; t <= q - window; ++t) eligible.push_back({row[t].item<float>(), t});
          std::sort(eligible.rbegin(), eligible.rend());
          std::vector<int> set;
          for (int i = 0; i < top_k; ++i) set.push_back(eligible[i].second);
          std::sort(set.begin(), set.end());
          return set;
        };
        const auto by_score = kept(scores[h][b]), by_target = kept(target[h][b]);
        for (const int t : by_score) shared += std::binary_search(by_target.begin(), by_target.end(), t);
        all += top_k;
      }
    }
    CHECK(recall[h].item<double>() == Approx(shared / all).margin(1e-6));
  }
}

TEST_CASE("on CUDA the teacher's kernel says what its definition in chunks says of the same bfloat16 numbers",
          "[cuda]") {
  const auto cuda = test::cuda_or_skip();
  if (!cuda) return;
  const at::Device device = *cuda;
  constexpr int kLong = 333, kWide = 64;
  const auto kind = GENERATE(FutureMass::mean, FutureMass::sum, FutureMass::rms, FutureMass::max);
  at::manual_seed(7);
  const auto drawn = [&](int heads) { return (2 * at::randn({2, kLong, heads, kWide})).to(device).to(at::kBFloat16); };
  const at::Tensor q = drawn(kHeads), k = drawn(kKvHeads), v = drawn(kKvHeads);
  const at::Tensor weight = value_weight(v, TargetWeight::value, {});
  const auto teach = [&](int chunk) { return teacher_attention(q, k, v, kWindow, kind, 0.125, weight, {}, chunk); };
  const TeacherAttention kernel = teach(0), plain = teach(64);
  // Logarithms of sums of float32 products of the same rounded numbers; the attention's own output is rounded to bfloat16.
  CHECK((kernel.target - plain.target).abs().max().item<double>() < 2e-3);
  CHECK((kernel.output.to(at::kFloat) - plain.output).abs().max().item<double>() < 0.05);
}

TEST_CASE("contests of several layers at once give each layer's loss and gradients") {
  ModelConfig model;
  model.n_layers = 3;
  model.n_kv_heads = kKvHeads;
  model.head_dim = kDim;
  ScorerOptions options;
  options.n_sink = 1;
  options.window = options.delay = 3;
  options.queries = 7;
  options.margin = MarginWeight::proportional;
  options.decay = DecayRange{0.9, 0.99};
  at::manual_seed(8);
  const auto drawn = [&](int n) {
    std::vector<at::Tensor> of_layers;
    for (int i = 0; i < n; ++i) of_layers.push_back(at::randn({kBatch, kPositions, kKvHeads, kDim}));
    return of_layers;
  };
  const auto k = drawn(3), v = drawn(3);
  std::vector<at::Tensor> target;
  for (int i = 0; i < 3; ++i) target.push_back((1 + i) * at::randn({kKvHeads, kBatch, kPositions}));
  const auto learned = [&](bool at_once) {
    ScorerModule scorer(options, model, at::kCPU);
    scorer.initialise(6);
    scorer.parameters().masters().add_(0.3 * at::ones_like(scorer.parameters().masters()));
    scorer.parameters().publish();
    double loss = 0;
    if (at_once) {
      Random random(9, 1);
      loss = teach_boundary(scorer, {1, 2}, at::cat({k[1], k[2]}, 2), at::cat({v[1], v[2]}, 2),
                            at::cat({target[1], target[2]}), /*top_k=*/5, options, random)
                 .item<double>();
    } else {
      for (const int layer : {1, 2}) {
        Random random(9, 1);
        loss += teach_boundary(scorer, layer, k[layer], v[layer], target[layer], 5, options, random).item<double>();
      }
    }
    return std::pair(loss, scorer.parameters().gradients());
  };
  const auto [apart, of_each] = learned(false);
  const auto [together, of_all] = learned(true);
  CHECK(together == Approx(apart).epsilon(1e-5));
  CHECK((of_all - of_each).abs().max().item<double>() < 1e-5 * of_each.abs().max().item<double>() + 1e-7);
  CHECK(of_each.abs().max().item<double>() > 1e-3);
}
