// The pass that measures what eviction did, against loops in double precision over the model's own q, k, v and W_o.

#include "engine/core/study/measure/output_error.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "engine/decode/output_error.h"
#include "engine/model/transformer.h"
#include "kernels/device.h"
#include "tests/engine/plain_layer.h"
#include "tests/engine/policy_cases.h"
#include "tests/engine/small_model.h"
#include "tests/support/skip.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

using engine::LoadedModel;
using engine::measure_output_error;
using test::Rows;
using Vector = std::vector<double>;

double norm(const Vector& x) { return std::sqrt(test::dot(x.data(), x.data(), static_cast<int>(x.size()))); }

Rows rows(const at::Tensor& tensor) {
  const at::Tensor x = tensor.to(at::kDouble).cpu().contiguous();
  return {static_cast<int>(x.size(1)),
          static_cast<int>(x.size(2)),
          {x.data_ptr<double>(), x.data_ptr<double>() + x.numel()}};
}

/// All queries of a run at once, key by key. Layers go on with what the run read.
class LoopHook final : public engine::AttentionHook {
 public:
  struct Row {
    Vector groups;                     // |D_g|, NaN where nothing is lost
    Vector read_mass, best_read_mass;  // of each KV head, NaN where it reads all
    double damage = NAN, output = 0;
    double gap = 0;  // |sum over g of D_g - D|
  };

  LoopHook(const LoadedModel& model, const RunRecord& run) : model_(model), run_(run) {
    for (const PageRead& read : run.reads)
      pages_[{read.q, read.layer, read.kv_head}] = {read.pages.begin(), read.pages.end()};
  }

  at::Tensor attend(int layer, const engine::LayerTokens& tokens) override {
    const Rows q = rows(tokens.q), k = rows(tokens.k), v = rows(tokens.v);
    const at::Tensor weight = model_.weights().layers[layer].o_proj.to(at::kDouble).cpu().contiguous();
    const int n = static_cast<int>(tokens.q.size(0)), group = q.n_heads / k.n_heads;
    at::Tensor out = at::zeros(tokens.q.sizes(), at::kDouble);
    layers.emplace_back(n);
    for (int query = 0; query < n; ++query) {
      Vector full(static_cast<std::size_t>(q.n_heads) * q.dim), lost(full);
      const int first = tokens.window > 0 ? std::max(0, query - tokens.window + 1) : 0;  // of a local layer
      std::vector<bool> lossy;
      for (int head = 0; head < q.n_heads; ++head) {
        const auto at = static_cast<std::size_t>(head) * q.dim;
        const auto over = [&](bool all, double* o) {
          double z = test::sink_weight(tokens.scores, head);
          for (int t = first; t <= query; ++t) {
            if (!all && !seen(layer, head / group, query, t)) continue;
            const double p = test::weight_of(tokens.scores, test::dot(q.at(query, head), k.at(t, head / group), q.dim));
            z += p;
            for (int c = 0; c < q.dim; ++c) o[c] += p * v.at(t, head / group)[c];
          }
          for (int c = 0; c < q.dim; ++c) o[c] /= z;
        };
        double* kept = out.data_ptr<double>() + (static_cast<std::size_t>(query) * q.n_heads + head) * q.dim;
        over(true, full.data() + at);
        over(false, kept);
        for (int c = 0; c < q.dim; ++c) lost[at + c] = full[at + c] - kept[c];
        bool any = false;
        for (int t = first; t <= query; ++t) any |= !seen(layer, head / group, query, t);
        if (head % group == 0) lossy.push_back(any);
      }
      layers[layer][query] = row_of(weight, full, lost, lossy, group * q.dim);
      for (int head = 0; head < k.n_heads; ++head)
        add_read_mass(layers[layer][query], q, k, layer, head, query, tokens.scores);
    }
    return out.to(tokens.q.scalar_type()).to(tokens.q.device());
  }
  std::vector<std::vector<Row>> layers;  // [n_layers][n]

 private:
  bool seen(int layer, int head, int query, int t) const {
    if (!visible(query, t, run_.evict_at.row(layer, head)[t])) return false;
    const auto read = pages_.find({query, layer, head});
    return read == pages_.end() || read->second.contains(t / 16);
  }

  /// Of the pages before the query's own, the share of attention on those it read, mean over the group, and on the best.
  void add_read_mass(Row& row, const Rows& q, const Rows& k, int layer, int kv_head, int query,
                     const engine::AttentionScores& scores) const {
    const auto read = pages_.find({query, layer, kv_head});
    const int n_pages = query / 16, group = q.n_heads / k.n_heads;
    row.read_mass.push_back(NAN), row.best_read_mass.push_back(NAN);
    if (read == pages_.end() || n_pages == 0) return;
    Vector share(static_cast<std::size_t>(n_pages));
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      Vector page(share.size());
      double all = 0;
      for (int t = 0; t < 16 * n_pages; ++t) {
        const double p = test::weight_of(scores, test::dot(q.at(query, head), k.at(t, kv_head), q.dim));
        page[static_cast<std::size_t>(t / 16)] += p;
        all += p;
      }
      for (std::size_t i = 0; i < share.size(); ++i) share[i] += page[i] / all / group;
    }
    double sum = 0, best = 0;
    int n_read = 0;
    for (const int page : read->second) {
      if (page < n_pages) sum += share[static_cast<std::size_t>(page)], ++n_read;
    }
    std::ranges::sort(share, std::greater<>());
    for (int i = 0; i < n_read; ++i) best += share[static_cast<std::size_t>(i)];
    row.read_mass.back() = sum, row.best_read_mass.back() = best;
  }

  /// x[begin, end) times W_o of these columns.
  static Vector project(const at::Tensor& weight, const Vector& x, int begin, int end) {
    Vector out;
    for (int i = 0; i < weight.size(0); ++i)
      out.push_back(test::dot(weight.data_ptr<double>() + i * weight.size(1) + begin, x.data() + begin, end - begin));
    return out;
  }

  static Row row_of(const at::Tensor& weight, const Vector& full, const Vector& lost, const std::vector<bool>& lossy,
                    int width) {
    const int end = static_cast<int>(full.size());
    Row row;
    Vector gap = project(weight, lost, 0, end);
    if (std::ranges::find(lossy, true) != lossy.end()) row.damage = norm(gap);
    row.output = norm(project(weight, full, 0, end));
    for (std::size_t head = 0; head < lossy.size(); ++head) {
      const int begin = static_cast<int>(head) * width;
      const Vector part = project(weight, lost, begin, begin + width);
      for (std::size_t i = 0; i < gap.size(); ++i) gap[i] -= part[i];
      row.groups.push_back(lossy[head] ? norm(part) : NAN);
    }
    row.gap = norm(gap);
    return row;
  }

  const LoadedModel& model_;
  const RunRecord& run_;
  std::map<std::tuple<int, int, int>, std::set<int>> pages_;
};

LoopHook by_loops(const LoadedModel& model, const RunRecord& run) {
  LoopHook hook(model, run);
  engine::forward(model.config(), model.weights(), engine::ids_tensor(model.weights(), run.ids.data(), run.queries()),
                  0, hook);
  return hook;
}

bool near(double found, double expected, double relative) {
  if (std::isnan(expected)) return std::isnan(found);
  return std::abs(found - expected) <= relative * expected + 1e-6;
}

void check_against_loops(const LoadedModel& model, const RunRecord& run, double relative) {
  const LoopHook expected = by_loops(model, run);
  const OutputError& error = run.output_error;
  REQUIRE(error.n_queries() == run.queries());
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int q = 0; q < run.queries(); ++q) {
      CAPTURE(layer, q);
      const LoopHook::Row& row = expected.layers[layer][q];
      REQUIRE(near(error.layer_output.row(layer, 0)[q], row.output, relative));
      REQUIRE(near(error.layer_damage.row(layer, 0)[q], row.damage, relative));
      for (int head = 0; head < run.model.n_kv_heads; ++head)
        REQUIRE(near(error.group_damage.row(layer, head)[q], row.groups[head], relative));
      for (int head = 0; head < run.model.n_kv_heads; ++head) {
        REQUIRE(near(error.read_mass.row(layer, head)[q], row.read_mass[head], relative));
        REQUIRE(near(error.best_read_mass.row(layer, head)[q], row.best_read_mass[head], relative));
      }
      REQUIRE(row.gap < 1e-12);
    }
  }
}

RunRecord measured_run(const LoadedModel& model, const std::string& policy, int n_prompt = 100, int n_new = 40) {
  RunRequest request = test::request(test::some_ids(n_prompt, model.config().vocab_size), policy, n_new);
  request.output_error = true;
  return record_run(model, request);
}

int n_values(const HeadSeries<float>& series) {
  int n = 0;
  for (int layer = 0; layer < series.n_layers(); ++layer)
    for (int head = 0; head < series.n_kv_heads(); ++head)
      for (const float value : series.row(layer, head)) n += !std::isnan(value);
  return n;
}

TEST_CASE("output error is the difference of two attentions through W_o, for every policy that loses tokens",
          "[engine][output_error]") {
  const std::string policy =
      GENERATE(as<std::string>{}, "streaming:sinks=4,window=32", "kvpop:budget=48,sinks=4,window=16", "tova:budget=40",
               "snapkv:budget=48,window=16", "h2o:budget=40,window=16", "quest:read=32,dense=1",
               "quest:read=48,dense=0", "expected-attention:budget=40,interval=16,future=32");
  CAPTURE(policy);
  const LoadedModel model = test::small_model();
  const RunRecord run = measured_run(model, policy);
  REQUIRE(run.status == RunStatus::complete);
  CHECK(n_values(run.output_error.layer_damage) > 0);
  check_against_loops(model, run, 1e-3);
}

TEST_CASE("Quest reads more of the attention than pages drawn at random hold, and less than the best as many",
          "[engine][output_error]") {
  const LoadedModel model = test::small_model();
  const RunRecord run = measured_run(model, "quest:read=48,dense=1", 160, 40);
  const int q = run.queries() - 1;
  const HeadMap read = head_metric(run, Metric::read_mass, q), best = head_metric(run, Metric::best_read_mass, q);
  for (int head = 0; head < run.model.n_kv_heads; ++head) {
    CHECK(std::isnan(read.at(0, head)));  // the dense layer reads all
    CHECK(read.at(1, head) > 2.0 / 12);   // 2 of some 12 pages before the query's own
    CHECK(read.at(1, head) <= best.at(1, head));
  }
  CHECK(n_values(measured_run(model, "streaming:sinks=4,window=32").output_error.read_mass) == 0);
}

TEST_CASE("output error holds in every family of models", "[engine][output_error][family]") {
  const ModelFamily& family = test::some_family();
  const std::string policy = GENERATE(as<std::string>{}, "streaming:sinks=4,window=32", "tova:budget=40",
                                      "kvpop:budget=48,sinks=4,window=16", "quest:read=32,dense=1");
  CAPTURE(family.architecture, policy);
  const LoadedModel& model = test::family_model_of_every_policy(family);
  check_against_loops(model, measured_run(model, policy), 1e-3);
}

TEST_CASE("output error holds under soft caps and sink logits", "[engine][output_error][variant]") {
  const std::string policy = GENERATE(as<std::string>{}, "streaming:sinks=4,window=32", "tova:budget=40",
                                      "h2o:budget=40,window=16", "snapkv:budget=48,window=16", "quest:read=32,dense=1");
  CAPTURE(policy);
  const LoadedModel model = LoadedModel::random(test::small_variant_config(), 5, {"cpu", "float32"}, 16);
  const RunRecord run = measured_run(model, policy);
  check_against_loops(model, run, 1e-3);
  std::vector<float> logprobs;
  measure_output_error(model, run, {}, &logprobs);
  for (std::size_t i = 1; i < logprobs.size(); ++i) REQUIRE(std::abs(logprobs[i] - run.logprobs[i]) < 1e-4);
}

TEST_CASE("output error goes over the border of a chunk", "[engine][output_error]") {
  const LoadedModel model = test::small_model();
  check_against_loops(model, measured_run(model, "streaming:sinks=4,window=200", 505, 20), 1e-3);
}

TEST_CASE("the pass of the output error is the run: same log-probabilities", "[engine][output_error]") {
  const std::string policy = GENERATE(as<std::string>{}, "full", "streaming:sinks=4,window=32", "tova:budget=40",
                                      "kvpop:budget=48,sinks=4,window=16", "quest:read=32,dense=1");
  CAPTURE(policy);
  const LoadedModel model = test::small_model();
  const RunRecord run = measured_run(model, policy);
  std::vector<float> logprobs;
  measure_output_error(model, run, {}, &logprobs);
  REQUIRE(logprobs.size() == run.logprobs.size());
  for (std::size_t i = 1; i < logprobs.size(); ++i) REQUIRE(std::abs(logprobs[i] - run.logprobs[i]) < 1e-4);
}

TEST_CASE("a run that keeps everything has no output error, and its output all the same", "[engine][output_error]") {
  const RunRecord run = measured_run(test::small_model(), "full");
  CHECK(n_values(run.output_error.group_damage) == 0);
  CHECK(n_values(run.output_error.layer_damage) == 0);
  CHECK(n_values(run.output_error.layer_output) == 2 * 140);
  for (const float value : head_metric(run, Metric::output_error, 139).values) CHECK(std::isnan(value));
}

TEST_CASE("local heads have an output error, full heads have none", "[engine][output_error]") {
  const LoadedModel model = test::small_model();
  const RunRecord run = measured_run(model, "hybrid:heads=c,full=0.5,sinks=4,window=16");
  REQUIRE(std::ranges::count(run.local_heads(), 1) == 2);
  check_against_loops(model, run, 1e-3);
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      const bool local = run.is_local(layer, head);
      CHECK(std::isnan(run.output_error.group_damage.row(layer, head)[120]) == !local);
    }
  }
}

TEST_CASE("a dense prompt has no output error before its end", "[engine][output_error]") {
  const RunRecord run = measured_run(test::small_model(), "snapkv:budget=48,window=16");
  const std::vector<float>& damage = run.output_error.layer_damage.row(1, 0);
  for (int q = 0; q < 100; ++q) REQUIRE(std::isnan(damage[q]));
  for (int q = 100; q < 140; ++q) REQUIRE(damage[q] > 0);
}

TEST_CASE("one token that leaves one head is missed there and from then on alone", "[engine][output_error]") {
  const LoadedModel model = test::small_model();
  RunRecord run = measured_run(model, "full");
  const OutputError whole = run.output_error;
  run.evict_at.row(0, 1)[20] = 50;
  run.output_error = measure_output_error(model, run).error;
  const OutputError& error = run.output_error;
  for (int q = 0; q < 140; ++q) {
    CAPTURE(q);
    REQUIRE(std::isnan(error.group_damage.row(0, 0)[q]));
    REQUIRE(std::isnan(error.group_damage.row(0, 1)[q]) == (q < 50));
    REQUIRE(std::isnan(error.layer_damage.row(1, 0)[q]));
    if (q >= 50) REQUIRE(error.group_damage.row(0, 1)[q] == error.layer_damage.row(0, 0)[q]);
    REQUIRE(error.layer_output.row(0, 0)[q] == Approx(whole.layer_output.row(0, 0)[q]));
    if (q < 50) REQUIRE(error.layer_output.row(1, 0)[q] == whole.layer_output.row(1, 0)[q]);
  }
  CHECK(error.layer_output.row(1, 0)[139] != whole.layer_output.row(1, 0)[139]);  // it saw what the layer before lost
  check_against_loops(model, run, 1e-3);
}

TEST_CASE("bfloat16 sets no floor to the output error", "[engine][output_error]") {
  const LoadedModel model = LoadedModel::random(test::small_config(), 1, {"cpu", "bfloat16"}, 16);
  RunRecord run = measured_run(model, "full");
  for (int layer = 0; layer < 2; ++layer)
    for (int head = 0; head < 2; ++head) run.evict_at.row(layer, head)[20] = 50;  // of 50 to 140: a small loss
  run.output_error = measure_output_error(model, run).error;
  const LoopHook expected = by_loops(model, run);
  double difference = 0, sum = 0;
  for (int layer = 0; layer < 2; ++layer) {
    for (int q = 50; q < 140; ++q) {
      difference += std::abs(run.output_error.layer_damage.row(layer, 0)[q] - expected.layers[layer][q].damage);
      sum += expected.layers[layer][q].damage;
    }
  }
  CHECK(difference < 0.02 * sum);
}

TEST_CASE(
    "the output error tells how many tokens it has seen, hears a cancel, and is not told by a run that is cancelled",
    "[engine][output_error]") {
  const LoadedModel model = test::small_model();
  RunRequest request = test::request(test::some_ids(60), "streaming:sinks=4,window=16", 20);
  request.output_error = true;
  std::vector<double> progress;
  bool cancel = false, told = false;
  engine::RunSink sink;
  sink.hooks.progress = [&](const std::string& phase, double value, double max) {
    if (phase != "output error") return;
    CHECK(max == 80);  // queries
    progress.push_back(value);
    cancel = true;
  };
  sink.output_error = [&](const OutputErrorFacts&) { told = true; };
  CHECK(execute_run(model, request, sink).status == RunStatus::complete);
  CHECK(progress == std::vector<double>{0, 40});
  CHECK(told);

  told = cancel = false;
  sink.hooks.cancelled = [&] { return cancel; };
  CHECK(execute_run(model, request, sink).status == RunStatus::cancelled);
  CHECK_FALSE(told);
}

TEST_CASE("a policy that evicts and reads pages has no output error, and says so before it runs",
          "[engine][output_error]") {
  CHECK_THROWS_WITH(check_measurable(PolicySpec::parse("wg-kv:threshold=0.5,window=16,read=32")),
                    Catch::Contains("evicts and reads pages"));
  check_measurable(PolicySpec::parse("wg-kv:threshold=0.5,window=16"));
  check_measurable(PolicySpec::parse("quest:read=32"));
}

TEST_CASE("CPU and CUDA measure the same output error", "[engine][output_error][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const std::string policy = GENERATE(as<std::string>{}, "streaming:sinks=4,window=32",
                                      "kvpop:budget=48,sinks=4,window=16", "quest:read=32,dense=1");
  CAPTURE(policy);
  RunRecord run = measured_run(test::small_model(), policy);
  run.output_error = measure_output_error(test::small_model(1, 16, "cuda"), run).error;
  check_against_loops(test::small_model(), run, 2e-3);
}

}  // namespace
}  // namespace kvscope
