// KVzap's regression: its target and loss against plain loops, who learns from it, and whole trainings that are small.

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"
#include "engine/jobs/train/kvzap_lesson.h"
#include "engine/jobs/train/kvzip_score.h"
#include "tests/engine/train_support.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::engine;
namespace fs = std::filesystem;

namespace {

using test::kModel, test::kText;

constexpr int kBatch = 2;
constexpr RepeatSpan kSpan{.text = 2, .repetition = 11, .n = 7};  // 2 tokens before, 2 between
constexpr int kPositions = 18;

using Matrix = std::vector<std::vector<double>>;

Matrix matrix_of(const at::Tensor& x) {  // [rows, columns]
  const at::Tensor values = x.detach().to(at::kDouble).contiguous();
  Matrix rows;
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    const double* row = values[i].const_data_ptr<double>();
    rows.emplace_back(row, row + values.size(1));
  }
  return rows;
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

/// A model of two layers with weights of ordinary size, not those that a training begins with.
DecoderModule small_model(bool trained = false) {
  DecoderModule model(test::student_config(), kPositions, at::kCPU, at::kFloat, trained);
  model.initialise(4);
  return model;
}

at::Tensor some_ids() {
  at::manual_seed(9);
  return at::randint(64, {kBatch, kPositions}, at::kLong);
}

DecoderModule::Heads some_heads(const DecoderModule& model, int layer) {
  const c10::NoGradGuard no_grad;
  at::Tensor x = model.embed(some_ids());
  for (int i = 0; i < layer; ++i) x = model.finish(i, x, model.attend(i, model.project(i, x)));
  return model.project(layer, x);
}

/// KVzip+ by its definition, not its logarithm: of the tokens of the first copy, of one row and KV head.
std::vector<double> kvzip_plus(const DecoderModule::Heads& heads, const at::Tensor& output_projection, double scale,
                               int row, int kv_head) {
  const auto group = heads.q.size(2) / heads.k.size(2), dim = heads.q.size(3);
  const Matrix k = matrix_of(heads.k[row].select(1, kv_head)), v = matrix_of(heads.v[row].select(1, kv_head)),
               input = matrix_of(heads.input[row]);
  std::vector<double> score(kSpan.n, 0);
  for (std::int64_t g = 0; g < group; ++g) {
    const std::int64_t head = kv_head * group + g;
    const Matrix q = matrix_of(heads.q[row].select(1, head)),
                 w = matrix_of(output_projection.narrow(1, head * dim, dim));
    for (std::int64_t j = kSpan.repetition; j < kSpan.repetition + kSpan.n; ++j) {
      std::vector<double> a;
      double sum = 0;
      for (std::int64_t t = 0; t <= j; ++t) sum += a.emplace_back(std::exp(scale * dot(q[j], k[t])));
      for (std::int64_t i = 0; i < kSpan.n; ++i) {
        std::vector<double> written;
        for (const auto& of_channel : w) written.push_back(dot(of_channel, v[kSpan.text + i]));
        score[i] = std::max(score[i], a[kSpan.text + i] / sum * norm(written) / norm(input[j]));
      }
    }
  }
  return score;
}

nlohmann::json recipe(int hidden, int steps = 60) {
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "repeat"}, {"length", 160}}},
          {"gate",
           {{"method", "kvzap"},
            {"hidden", hidden},
            {"positions", 50},
            {"window", 16},
            {"sinks", 2},
            {"steps", steps},
            {"batch", 2},
            {"log_every", 1},
            {"warm_up", 5},
            {"heldout_sequences", 8}}}};
}

struct Trained {
  nlohmann::json result;
  std::vector<double> losses;
};

Trained train(const nlohmann::json& recipe, const fs::path& output) {
  Trained out;
  JobContext context;
  context.row = [&](const std::string&, const nlohmann::json& row) { out.losses.push_back(row.at("loss_all")); };
  out.result = train_job({{"recipe", recipe}, {"base", kModel}, {"data", kText}, {"output", output}, {"device", "cpu"}},
                         context)["gate"];
  return out;
}

}  // namespace

TEST_CASE("log KVzip+ is the logarithm of its definition in loops, for every chunk size") {
  const auto chunk = GENERATE(0, 1, 3, 7);
  const auto layer = GENERATE(0, 1);
  const DecoderModule model = small_model();
  DecoderModule::Heads heads = some_heads(model, layer);
  heads.q = 4 * heads.q;  // attention that is not flat
  const double scale = model.config().attention_scale(layer);
  const at::Tensor found = log_kvzip_plus(heads, model.output_projection(layer), scale, kSpan, chunk);
  REQUIRE(found.sizes() == at::IntArrayRef{kBatch, 2, kSpan.n});
  for (int row = 0; row < kBatch; ++row) {
    for (int kv_head = 0; kv_head < 2; ++kv_head) {
      const auto expected = kvzip_plus(heads, model.output_projection(layer), scale, row, kv_head);
      for (int i = 0; i < kSpan.n; ++i) {
        // Sums of a few dozen float32 products, then a logarithm.
        CHECK(found[row][kv_head][i].item<double>() == Approx(std::log(expected[i])).margin(1e-4));
      }
    }
  }
}

TEST_CASE("a probability too small for float32 still has a logarithm, and so has a value of 0") {
  const DecoderModule model = small_model();
  DecoderModule::Heads heads = some_heads(model, 0);
  heads.q = 300 * heads.q;
  heads.v.select(1, kSpan.text).zero_();
  const at::Tensor found = log_kvzip_plus(heads, model.output_projection(0), 0.35, kSpan);
  CHECK(found.isfinite().all().item<bool>());
  CHECK(found.select(2, 0).max().item<double>() < found.narrow(2, 1, kSpan.n - 1).max().item<double>() - 20);
  CHECK(found.narrow(2, 1, kSpan.n - 1).min().item<double>() < std::log(1e-38));
}

TEST_CASE("KVzap's loss is the mean squared difference to the logarithms, and only the gate learns from it") {
  const int hidden = GENERATE(6, 0);
  const DecoderModule model = small_model(/*trained=*/true);
  const GateKind kind = hidden > 0 ? GateKind::kvzap_mlp : GateKind::kvzap_linear;
  GateModule gate(kind, hidden, model.config(), at::kCPU);
  gate.initialise(5, -3);
  gate.parameters().master("w2").mul_(30);
  gate.parameters().publish();
  const at::Tensor chosen = at::tensor({5, 0, 3}, at::kLong);
  const auto loss_of = [&] {
    const KvzapLesson lesson = kvzap_lesson(model, gate, some_ids(), kSpan, chosen);
    return at::mse_loss(lesson.predicted, lesson.target);
  };
  double sum = 0;
  for (int layer = 0; layer < 2; ++layer) {
    const DecoderModule::Heads heads = some_heads(model, layer);
    const GateModule::Layer of = gate.layers()[static_cast<std::size_t>(layer)];
    const Matrix w2 = matrix_of(of.at("w2"));
    const auto b2 = matrix_of(of.at("b2").unsqueeze(0))[0];
    for (int row = 0; row < kBatch; ++row) {
      const Matrix input = matrix_of(heads.input[row]);
      for (int head = 0; head < 2; ++head) {
        const auto score =
            kvzip_plus(heads, model.output_projection(layer), model.config().attention_scale(layer), row, head);
        for (const int i : {5, 0, 3}) {
          std::vector<double> units = input[kSpan.text + i];
          if (hidden > 0) {
            const Matrix w1 = matrix_of(of.at("w1"));
            const auto b1 = matrix_of(of.at("b1").unsqueeze(0))[0];
            std::vector<double> active;
            for (int m = 0; m < hidden; ++m) {
              const double x = dot(w1[m], units) + b1[m];
              active.push_back(x * (1 + std::erf(x / std::sqrt(2.0))) / 2);
            }
            units = active;
          }
          const double difference = dot(w2[head], units) + b2[head] - std::log(score[i]);
          sum += difference * difference / (2 * kBatch * 2 * 3);
        }
      }
    }
  }
  const at::Tensor loss = loss_of();
  CHECK(loss.item<double>() == Approx(sum).epsilon(1e-4));
  loss.backward();
  CHECK(model.parameters().gradient_sums().abs().max().item<double>() == 0);
  const at::Tensor gradients = gate.parameters().gradients();
  at::Tensor& masters = gate.parameters().masters();
  const std::int64_t which = gradients.abs().argmax().item<std::int64_t>();
  REQUIRE(std::abs(gradients[which].item<double>()) > 1e-3);
  const c10::NoGradGuard no_grad;
  const auto at_step = [&](double step) {
    masters[which] += step;
    gate.parameters().publish();
    const double value = loss_of().item<double>();
    masters[which] -= step;
    return value;
  };
  CHECK((at_step(1e-2) - at_step(-1e-2)) / 2e-2 == Approx(gradients[which].item<double>()).epsilon(1e-2));
}

TEST_CASE("the fit's error and explained share are those of each head, and a density chooses the threshold") {
  at::manual_seed(2);
  const at::Tensor target = at::randn({2, 3, 2, 50}), predicted = 0.5 * target + 0.1;
  KvzapFit fit;
  for (const int row : {0, 1, 2}) fit.add({predicted.narrow(1, row, 1), target.narrow(1, row, 1)});
  const at::Tensor of_head = target[1].select(1, 0).to(at::kDouble), off = (0.5 * of_head - 0.1).square().mean();
  CHECK(fit.error()[1][0].item<double>() == Approx(off.item<double>()).epsilon(1e-5));
  CHECK(fit.explained()[1][0].item<double>() ==
        Approx(1 - off.item<double>() / of_head.var(at::IntArrayRef{0, 1}, /*unbiased=*/false).item<double>())
            .epsilon(1e-5));
  for (const double density : {0.25, 0.5, 0.999}) {
    CHECK((predicted >= fit.threshold_of(density)).sum().item<int>() == static_cast<int>(density * 600));
  }
}

TEST_CASE("60 steps of KVzap predict held-out text better than the mean, and what they write is a gate of that model") {
  const int hidden = GENERATE(16, 0);
  const std::string name = hidden > 0 ? "kvzap-mlp" : "kvzap-linear";
  const test::TempFolder scratch;
  nlohmann::json still = recipe(hidden);
  still["gate"]["learning_rate"] = 0;
  still["gate"]["steps"] = 1;
  const Trained one = train(recipe(hidden), scratch / "one"), none = train(still, scratch / "none");
  REQUIRE(one.losses.size() == 60);
  const auto mean = [](const Trained& trained, const char* of) { return trained.result[of]["mean"].get<double>(); };
  CHECK(mean(one, "heldout_loss") < 0.8 * mean(none, "heldout_loss"));
  CHECK(mean(one, "heldout_r2") > 0.05);
  CHECK(mean(none, "heldout_r2") < 0.05);  // it is the mean of one text
  CHECK(one.result["heldout_loss"]["by_layer"].size() == 6);
  const ModelConfig model = ModelConfig::load(kModel);
  const GateFile gate = load_gate(scratch / "one" / name, model);
  CHECK(gate.config.kind == (hidden > 0 ? GateKind::kvzap_mlp : GateKind::kvzap_linear));
  CHECK(gate.config.n_hidden == hidden);
  CHECK(gate.config.activation == (hidden > 0 ? Activation::gelu : Activation::identity));
  CHECK(gate.config.window == 16);
  CHECK(gate.config.n_sink == 2);
  CHECK(gate.config.threshold < 0);
  CHECK(gate.n_parameters() == one.result["parameters"]);
  CHECK(read_json(scratch / "one" / name / "gate.json").at("description") == "KVzap, log KVzip+; test");
}

TEST_CASE("a threshold in KVzap's recipe is that of the gate") {
  const test::TempFolder scratch;
  nlohmann::json asked = recipe(4, 1);
  asked["gate"]["threshold"] = -6.5;
  train(asked, scratch / "out");
  CHECK(load_gate(scratch / "out/kvzap-mlp").config.threshold == -6.5);
}

TEST_CASE("a recipe of KVzap that cannot be is refused in a line with its key") {
  struct Case {
    const char *section, *key;
    nlohmann::json value;
    const char* message;
  };
  const auto c = GENERATE(
      Case{"gate", "stages", nlohmann::json::array(), "gate.stages: an unknown key; expected one of batch"},
      Case{"gate", "price", 0.1, "gate.price: an unknown key"}, Case{"gate", "positions", 0, "gate.positions"},
      Case{"gate", "hidden", -1, "gate.hidden"}, Case{"gate", "density", 2, "gate.density"},
      Case{"data", "facts_share", 0.5, "data.facts_share: an unknown key; expected one of chat, heldout_share, kind"},
      Case{"data", "chat", "yes", "data.chat"}, Case{"data", "length", 20, "data.length: 20; expected at least"},
      Case{"data", "kind", "echo", "data.kind: echo; expected tasks, text, repeat or palindrome"},
      Case{"data", "kind", "text", "data.kind: text; expected repeat: method kvzap learns from"});
  const test::TempFolder scratch;
  nlohmann::json wrong = recipe(4, 1);
  wrong[c.section][c.key] = c.value;
  CHECK_THROWS_WITH(train(wrong, scratch / "out"), Catch::Contains(c.message) && !Catch::Contains("\n"));
  wrong = recipe(4, 1);
  wrong["gate"].update({{"threshold", -4}, {"density", 0.3}});
  CHECK_THROWS_WITH(train(wrong, scratch / "out"), Catch::Contains("gate.density: a threshold as well; expected only"));
}
