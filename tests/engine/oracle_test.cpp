// The transposed pass against what it is: column sums of the softmax matrix.

#include <cmath>
#include <limits>

#include "engine/core/record/assemble.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/decode/dense_teacher.h"
#include "engine/decode/run.h"
#include "engine/model/ops.h"
#include "engine/model/transformer.h"
#include "tests/engine/small_model.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope::engine {
namespace {

/// Dense attention by LibTorch's own softmax, which also keeps p: [n_heads, n, n] of every layer.
class MatrixHook final : public AttentionHook {
 public:
  at::Tensor attend(int, const engine::LayerTokens& tokens) override {
    const at::Tensor &q = tokens.q, &k = tokens.k, &v = tokens.v;
    const std::int64_t n = q.size(0), group = q.size(1) / k.size(1);
    const auto heads_first = [](const at::Tensor& x) { return x.to(at::kDouble).transpose(0, 1); };
    const at::Tensor keys = heads_first(k).repeat_interleave(group, 0),
                     values = heads_first(v).repeat_interleave(group, 0);
    at::Tensor logits = at::matmul(heads_first(q), keys.transpose(1, 2)) / std::sqrt(static_cast<double>(q.size(2)));
    logits.masked_fill_(at::ones({n, n}, at::kBool).triu_(1), -std::numeric_limits<double>::infinity());
    p.push_back(logits.softmax(-1));
    return at::matmul(p.back(), values).transpose(0, 1).to(q.scalar_type()).contiguous();
  }
  std::vector<at::Tensor> p;
};

TEST_CASE("the teacher's future mass is the mean of the softmax matrix' columns beyond the window",
          "[engine][oracle]") {
  const int n = 90, window = GENERATE(1, 16, 80, 200);
  const std::string agg = GENERATE("max", "mean", "logmean");  // H14: mean was the mean of logarithms
  CAPTURE(window, agg);
  const LoadedModel model = test::small_model();
  const std::vector<std::int32_t> ids = test::some_ids(n);
  MatrixHook hook;
  forward(model.config(), model.weights(), ids_tensor(model.weights(), ids.data(), n), 0, hook);

  DenseTeacher teacher(model, 100, window, OracleSpec::parse("agg=" + agg));
  teacher.absorb(std::span(ids).first(33));  // in parts, as a run does
  teacher.absorb(std::span(ids).subspan(33, 1));
  teacher.absorb(std::span(ids).subspan(34));
  REQUIRE(teacher.horizon() == n);
  const HeadSeries<float> mass = teacher.future_mass();
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      for (int t = 0; t < n; ++t) {
        const float found = mass.row(layer, head)[t];
        if (t + window >= n) {
          REQUIRE(std::isnan(found));
          continue;
        }
        const at::Tensor columns =
            hook.p[layer].narrow(0, 2 * head, 2).narrow(1, t + window, n - t - window).select(2, t);
        const at::Tensor of_heads = columns.mean(1);
        const double expected = agg == "max"    ? of_heads.max().item<double>()
                                : agg == "mean" ? of_heads.mean().item<double>()
                                                : (of_heads + 1e-6).log().mean().exp().item<double>() - 1e-6;
        REQUIRE(found == Approx(expected).epsilon(1e-4).margin(1e-7));
      }
    }
  }
}

/// Whether a is b to about 1e-4 of it, and no number where b is none.
void check_close(const HeadSeries<float>& a, const HeadSeries<float>& b) {
  REQUIRE(a.n_layers() == b.n_layers());
  for (int layer = 0; layer < a.n_layers(); ++layer) {
    for (int head = 0; head < a.n_kv_heads(); ++head) {
      REQUIRE(a.row(layer, head).size() == b.row(layer, head).size());
      for (std::size_t t = 0; t < a.row(layer, head).size(); ++t) {
        const float found = a.row(layer, head)[t], expected = b.row(layer, head)[t];
        REQUIRE(std::isnan(found) == std::isnan(expected));
        if (!std::isnan(expected)) REQUIRE(found == Approx(expected).epsilon(1e-4).margin(1e-7));
      }
    }
  }
}

TEST_CASE("what the teacher sees does not depend on how many tokens it reads at once", "[engine][oracle]") {
  constexpr int kText = 600;
  const LoadedModel model = test::small_model();
  const std::vector<std::int32_t> ids = test::some_ids(kText);
  const auto seen = [&](int chunk) {
    DenseTeacher teacher(model, kText, 16, OracleSpec{}, chunk);
    int looks = 0;
    teacher.absorb(ids, [&] { return ++looks, false; });
    CHECK(looks == (kText + chunk - 1) / chunk);
    return teacher.future();
  };
  const FutureAttention expected = seen(256), found = seen(GENERATE(7, 100, 2048));
  check_close(found.mass, expected.mass);
  for (const auto kind : {&FutureKinds::rms, &FutureKinds::max, &FutureKinds::value_norm, &FutureKinds::output_mean,
                          &FutureKinds::output_rms, &FutureKinds::output_max})
    check_close(found.kinds.*kind, expected.kinds.*kind);
}

TEST_CASE("the oracle recalls itself completely, and a run's final oracle has its whole length", "[engine][oracle]") {
  const LoadedModel model = test::small_model();
  RunRequest request = test::request(test::some_ids(100), "kvpop:budget=40,sinks=4,window=16", 40);
  request.oracle = true;
  RunRecord run = record_run(model, request);
  REQUIRE(run.status == RunStatus::complete);
  CHECK(run.oracle_horizon == 140);
  CHECK(run.future_mass.row(1, 1).size() == 140u);
  const double measured = mean(head_metric(run, Metric::recall, 139));
  CHECK(measured > 0);
  CHECK(measured < 1);  // an untrained scorer
  // Its own choice as a policy's: a running top-k of its targets.
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      std::vector<float> scores = run.future_mass.row(layer, head);
      for (float& score : scores) score = std::log(1e-6f + score);
      running_top_k(scores, run.geometry(), 140, run.evict_at.row(layer, head));
    }
  }
  for (const Metric metric : {Metric::recall, Metric::mean_recall, Metric::mass_recall, Metric::above_chance}) {
    for (const float value : head_metric(run, metric, 139).values) CHECK(value == Approx(1));
  }
}

TEST_CASE("recall comes behind the first new token, every sixteen tokens and at the end", "[engine][oracle]") {
  const LoadedModel model = test::small_model();
  RunRequest request = test::request(test::some_ids(100), "kvpop:budget=40,sinks=4,window=16", 40);
  request.oracle = true;
  std::vector<int> horizons;
  int n_final = 0;
  RunSink sink;
  sink.oracle = [&](const OracleFacts& facts) {
    horizons.push_back(facts.horizon);
    n_final += facts.final;
  };
  execute_run(model, request, sink);
  CHECK(horizons == std::vector<int>{101, 117, 133, 140});
  CHECK(n_final == 1);
}

TEST_CASE("nobody waits for the teacher's first look to see the first new token") {
  const LoadedModel model = test::small_model();
  RunRequest request = test::request(test::some_ids(100), "kvpop:budget=40,sinks=4,window=16", 3);
  request.oracle = true;
  std::string order;
  RunSink sink;
  sink.step = [&](const StepFacts& facts) { order += facts.ids.empty() ? 'p' : 't'; };
  sink.oracle = [&](const OracleFacts& facts) { order += facts.final ? 'F' : 'o'; };
  execute_run(model, request, sink);
  CHECK(order == "ptottF");
}

TEST_CASE("a run that is told to stop stops at the next token and keeps what it has", "[engine][generate]") {
  const LoadedModel model = test::small_model();
  int tokens = 0;
  RunSink sink;
  sink.step = [&](const StepFacts& facts) { tokens += static_cast<int>(facts.ids.size()); };
  sink.hooks.cancelled = [&] { return tokens >= 5; };
  CHECK(execute_run(model, test::request(test::some_ids(20), "full", 100), sink).status == RunStatus::cancelled);
  CHECK(tokens == 5);
  sink.hooks.cancelled = [] { return true; };
  CHECK(execute_run(model, test::request(test::some_ids(20), "full", 100), sink).status == RunStatus::cancelled);
  CHECK(tokens == 5);
}

TEST_CASE("a run that is told to stop has the oracle of what it decoded", "[engine][generate]") {
  const LoadedModel model = test::small_model();
  const std::string policy = "kvpop:budget=40,sinks=4,window=16";
  RunRequest request = test::request(test::some_ids(80), policy, 21);
  request.oracle = true;
  const RunRecord whole = record_run(model, request);
  request.max_tokens = 100;
  RunRecord stopped;
  stopped.model = model.info();
  RunSink sink;
  sink.started = [&](RunStarted started) { begin_run(stopped, std::move(started)); };
  sink.step = [&](const StepFacts& facts) { apply(stopped, facts); };
  sink.oracle = [&](OracleFacts facts) { apply(stopped, std::move(facts)); };
  sink.hooks.cancelled = [&] { return stopped.n_tokens() >= 101; };  // neither at a look of the oracle nor at an end
  end_run(stopped, execute_run(model, request, sink));
  CHECK(stopped.status == RunStatus::cancelled);
  CHECK(stopped.ids == whole.ids);
  CHECK(stopped.oracle_horizon == 101);
  REQUIRE_FALSE(stopped.future_mass.empty());
  CHECK(head_metric(stopped, Metric::recall, 99).values == head_metric(whole, Metric::recall, 99).values);
}

}  // namespace
}  // namespace kvscope::engine
