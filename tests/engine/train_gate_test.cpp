// Gates through soft attention: the attention against loops and against LibTorch's differentiation, the networks against
// loops, whole trainings that are small.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"
#include "engine/jobs/train/distillation.h"
#include "engine/jobs/train/gate_method.h"
#include "engine/jobs/train/gate_module.h"
#include "engine/jobs/train/gate_thresholds.h"
#include "engine/jobs/train/gated_attention.h"
#include "tests/engine/train_support.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::engine;
namespace fs = std::filesystem;

namespace {

constexpr int kBatch = 2, kPositions = 19, kHeads = 4, kKvHeads = 2, kDim = 8, kWindow = 5;
constexpr double kScale = 0.3;

struct Inputs {
  at::Tensor q, k, v, log_gate, seen;  // `seen`: what the output is multiplied with, so that every gradient differs
};

Inputs inputs(at::ScalarType type, int n_positions = kPositions, int dim = kDim, at::Device device = at::kCPU) {
  at::manual_seed(11);
  const auto options = at::TensorOptions(type);
  return {at::randn({kBatch, n_positions, kHeads, dim}, options).to(device),
          at::randn({kBatch, n_positions, kKvHeads, dim}, options).to(device),
          at::randn({kBatch, n_positions, kKvHeads, dim}, options).to(device),
          at::log_sigmoid(3 * at::randn({kBatch, kKvHeads, n_positions}, options)).to(device),
          at::randn({kBatch, n_positions, kHeads * dim}, options).to(device)};
}

at::Tensor leaf(const at::Tensor& values) { return values.detach().clone().set_requires_grad(true); }

/// The definition in loops over double, one batch row and head.
std::vector<double> attention_row(const Inputs& in, int batch, int head, int query, int window) {
  const int kv = head / (kHeads / kKvHeads);
  std::vector<double> weight(static_cast<std::size_t>(query) + 1), out(kDim, 0);
  double sum = 0;
  for (int t = 0; t <= query; ++t) {
    double score = 0;
    for (int d = 0; d < kDim; ++d) {
      score += in.q[batch][query][head][d].item<double>() * in.k[batch][t][kv][d].item<double>();
    }
    score = kScale * score + (query - t >= window ? in.log_gate[batch][kv][t].item<double>() : 0.0);
    weight[static_cast<std::size_t>(t)] = std::exp(score);
    sum += weight[static_cast<std::size_t>(t)];
  }
  for (int t = 0; t <= query; ++t) {
    for (int d = 0; d < kDim; ++d) {
      out[static_cast<std::size_t>(d)] +=
          weight[static_cast<std::size_t>(t)] / sum * in.v[batch][t][kv][d].item<double>();
    }
  }
  return out;
}

/// Relative to the largest expected number.
double distance(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor f = found.to(at::kCPU, at::kDouble), e = expected.to(at::kCPU, at::kDouble);
  return (f - e).abs().max().item<double>() / std::max(1e-30, e.abs().max().item<double>());
}

using test::kModel, test::kText;

nlohmann::json recipe(const std::string& method) {
  const char* weight = method == "sp-kv" ? "price" : "weight";
  return {{"name", "test"},
          {"seed", 3},
          {"data", {{"kind", "text"}, {"length", 96}, {"facts_share", 0}}},
          {"gate",
           {{"method", method},
            {"hidden", 8},
            {"window", 16},
            {"sinks", 2},
            {"batch", 2},
            {"log_every", 1},
            {"warm_up", 2},
            {"learning_rate", 1e-2},
            {"stages", {{{weight, 0.5}, {"steps", 6}}, {{weight, 0.7}, {"steps", 2}}}}}}};
}

struct Trained {
  nlohmann::json result;
  std::vector<double> losses, means;
};

Trained train(const nlohmann::json& recipe, const fs::path& output, const fs::path& data = kText,
              const fs::path& base = kModel) {
  Trained out;
  JobContext context;
  context.row = [&](const std::string&, const nlohmann::json& row) {
    out.losses.push_back(row.at("loss_all"));
    out.means.push_back(row.at("gate_mean"));
  };
  out.result =
      train_job({{"recipe", recipe}, {"base", base}, {"data", data}, {"output", output}, {"device", "cpu"}}, context);
  return out;
}

}  // namespace

TEST_CASE("gated attention is the loops of its definition") {
  const int window = GENERATE(1, kWindow);  // 1: WG-KV without a local cache
  const Inputs in = inputs(at::kDouble);
  const at::Tensor out = gated_attention(in.q, in.k, in.v, in.log_gate, window, kScale);
  for (int head = 0; head < kHeads; ++head) {
    for (int query = 0; query < kPositions; ++query) {
      const auto expected = attention_row(in, 1, head, query, window);
      for (int d = 0; d < kDim; ++d) {
        CHECK(out[1][query][head * kDim + d].item<double>() ==
              Approx(expected[static_cast<std::size_t>(d)]).margin(1e-12));
      }
    }
  }
}

TEST_CASE("gates that are all open are dense attention, and a gate inside the window changes nothing") {
  Inputs in = inputs(at::kDouble);
  const at::Tensor open = at::zeros_like(in.log_gate);
  const at::Tensor dense = at::scaled_dot_product_attention(in.q.transpose(1, 2), in.k.transpose(1, 2),
                                                            in.v.transpose(1, 2), {}, 0, true, kScale, true);
  CHECK(distance(gated_attention(in.q, in.k, in.v, open, kWindow, kScale),
                 dense.transpose(1, 2).reshape({kBatch, kPositions, -1})) < 1e-12);
  const at::Tensor before = gated_attention(in.q, in.k, in.v, in.log_gate, kWindow, kScale);
  in.log_gate.narrow(2, kPositions - kWindow, kWindow).fill_(-7);  // no query is so far behind them
  CHECK(at::equal(gated_attention(in.q, in.k, in.v, in.log_gate, kWindow, kScale), before));
}

TEST_CASE(
    "on CUDA gated attention and its gradients are those of the definition in float32, within bfloat16's rounding",
    "[cuda]") {
  const auto cuda = test::cuda_or_skip();
  if (!cuda) return;
  const at::Device device = *cuda;
  const auto window = GENERATE(1, 64, 256, 700);
  constexpr int kLong = 600, kWide = 64;
  const Inputs in = inputs(at::kFloat, kLong, kWide, device);
  const auto run = [&](at::ScalarType type, auto&& attention) {
    const at::Tensor q = leaf(in.q.to(type)), k = leaf(in.k.to(type)), v = leaf(in.v.to(type)),
                     gate = leaf(in.log_gate);
    const at::Tensor out = attention(q, k, v, gate, window, 0.125);
    (out.to(at::kFloat) * in.seen).sum().backward();
    return std::vector<at::Tensor>{out.detach(), q.grad(), k.grad(), v.grad(), gate.grad()};
  };
  const auto exact = run(at::kFloat, plain_gated_attention), rough = run(at::kBFloat16, plain_gated_attention),
             fast = run(at::kBFloat16, gated_attention);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    INFO("of output, q, k, v, gate: " << i << ", window " << window);
    // The plain formula on inputs rounded to bfloat16 is what no version can be better than; products round again.
    CHECK(distance(fast[i], exact[i]) < 2 * distance(rough[i], exact[i]) + 0.01);
  }
}

TEST_CASE("distillation is the plain formula for every chunk size, and so is its gradient") {
  const auto chunk = GENERATE(1, 5, 100);
  at::manual_seed(5);
  const at::Tensor student = at::randn({13, 6}, at::kDouble), teacher = at::randn({13, 6}, at::kDouble),
                   output = at::randn({11, 6}, at::kDouble);
  const at::Tensor a = leaf(student), b = leaf(student);
  const auto log_p = [&](const at::Tensor& h) { return at::matmul(h, output.t()).log_softmax(-1); };
  const at::Tensor p = log_p(teacher).exp(), plain = (p * (log_p(teacher) - log_p(b))).sum(-1).mean();
  const at::Tensor found = distillation(a, teacher, output, /*top=*/0, chunk);
  CHECK(found.item<double>() == Approx(plain.item<double>()).epsilon(1e-12));
  (found * 3).backward();
  (plain * 3).backward();
  CHECK(distance(a.grad(), b.grad()) < 1e-12);
  const double step = 1e-6;  // and of finite differences
  at::Tensor more = student.clone(), less = student.clone();
  more[4][2] += step;
  less[4][2] -= step;
  const double slope =
      (distillation(more, teacher, output).item<double>() - distillation(less, teacher, output).item<double>()) /
      (2 * step);
  CHECK(3 * slope == Approx(a.grad()[4][2].item<double>()).epsilon(1e-6));
}

TEST_CASE("training closes gates, is the same for the same seed, and what it writes is a gate of that model") {
  const auto method = GENERATE(as<std::string>{}, "wg-kv", "sp-kv", "dms");
  const test::TempFolder scratch;
  const Trained one = train(recipe(method), scratch / "one"), two = train(recipe(method), scratch / "two");
  REQUIRE(one.losses.size() == 8);
  CHECK(one.losses == two.losses);
  CHECK(one.means.back() < one.means.front());
  const ModelConfig model = ModelConfig::load(kModel);
  for (const char* weight : {"-0.5", "-0.7"}) {
    const fs::path folder = scratch / "one" / (method + weight);
    const GateFile gate = load_gate(folder, model);
    CHECK(gate.hash == load_gate(scratch / "two" / (method + weight), model).hash);
    CHECK(gate.config.window == 16);
    CHECK(gate.config.n_sink == 2);
  }
  CHECK(load_gate(scratch / "one" / (method + "-0.5"), model).hash !=
        load_gate(scratch / "one" / (method + "-0.7"), model).hash);
}

TEST_CASE("a gate learns in the layers of a hybrid model that attend to all, and in no other") {
  const auto method = GENERATE(as<std::string>{}, "wg-kv", "sp-kv", "dms");
  const test::TempFolder scratch;
  const fs::path base = scratch / "base";
  fs::copy(kModel, base);
  nlohmann::json config = nlohmann::json::parse(std::ifstream(base / "config.json"));
  config["use_sliding_window"] = true;
  config["sliding_window"] = 24;
  config["layer_types"] = {"sliding_attention", "full_attention",    "sliding_attention",
                           "sliding_attention", "sliding_attention", "full_attention"};
  std::ofstream(base / "config.json") << config;
  nlohmann::json plain = recipe(method);
  plain["gate"]["weight_decay"] = 0;  // which changes all weights
  const Trained run = train(plain, scratch / "out", kText, base);
  REQUIRE(run.losses.size() == 8);
  CHECK(run.means.back() < run.means.front());
  const ModelConfig model = ModelConfig::load(base);
  const GateFile soft = load_gate(scratch / "out" / (method + "-0.5"), model),
                 hard = load_gate(scratch / "out" / (method + "-0.7"), model);
  for (const auto& [name, tensor] : soft.tensors) {
    const auto n = tensor.values.size() / static_cast<std::size_t>(model.n_layers);
    const std::vector<float>& later = hard.tensors.at(name).values;
    for (std::size_t layer = 0; layer < static_cast<std::size_t>(model.n_layers); ++layer) {
      const auto first = static_cast<std::ptrdiff_t>(layer * n), end = first + static_cast<std::ptrdiff_t>(n);
      const bool same = std::equal(tensor.values.begin() + first, tensor.values.begin() + end, later.begin() + first);
      CAPTURE(name, layer);
      if (model.is_local(static_cast<int>(layer))) CHECK(same);
      if (name == "w2" && !model.is_local(static_cast<int>(layer))) CHECK_FALSE(same);
    }
  }
}

TEST_CASE("a cache of hard gates holds the window and what is open behind it, counted in loops") {
  at::manual_seed(3);
  const at::Tensor open = (at::rand({3, 2, kPositions}) > 0.6).to(at::kFloat);
  const auto window = GENERATE(1, 5, kPositions, 2 * kPositions);
  double sum = 0;
  for (int row = 0; row < 6; ++row) {
    const at::Tensor of = open.view({6, kPositions})[row];
    for (int q = 0; q < kPositions; ++q) {
      int held = 0;
      for (int t = 0; t <= q; ++t) held += q - t < window || of[t].item<float>() == 1;
      sum += held / (q + 1.0);
    }
  }
  CHECK(cache_size(open, window) == Approx(sum / (6 * kPositions)).epsilon(1e-12));
}

TEST_CASE("a gate's held-out loss and cache at each threshold are a curve: a higher one holds less and loses more") {
  const test::TempFolder scratch;
  nlohmann::json asked = recipe("wg-kv");
  asked["gate"]["stages"] = {{{"weight", 0.5}, {"steps", 6}}};
  asked["gate"]["heldout_sequences"] = 2;
  asked["gate"]["thresholds"] = {0.001, 0.9, 0.999};
  nlohmann::json curve;
  JobContext context;
  context.curve = [&](const nlohmann::json& told) {
    if (told["name"] == "wg-kv-0.5-thresholds") curve = told;
  };
  train_job({{"recipe", asked}, {"base", kModel}, {"data", kText}, {"output", scratch / "out"}, {"device", "cpu"}},
            context);
  REQUIRE(curve["columns"] == nlohmann::json{"threshold", "loss_output", "cache_size"});
  const auto rows = curve["rows"].get<std::vector<std::vector<double>>>();
  REQUIRE(rows.size() == 3);
  CHECK(rows[0][2] == 1);  // all gates are open: the dense model
  CHECK(rows[0][1] == Approx(0).margin(1e-6));
  CHECK(rows[2][2] < rows[1][2] + 1e-12);
  CHECK(rows[2][1] > rows[0][1]);
  CHECK(rows[2][2] < 0.6);  // a window of 16 and two sinks in 96 tokens
  asked["gate"]["thresholds"] = {1.5};
  CHECK_THROWS_WITH(train(asked, scratch / "none"), Catch::Contains("gate.thresholds"));
}

TEST_CASE("SP-KV's price closes gates, its density regulariser of eq. 13 opens them, and each names its gate") {
  const test::TempFolder scratch;
  nlohmann::json priced = recipe("sp-kv"), regularised = priced;
  priced["gate"]["stages"] = {{{"price", 5}, {"steps", 8}}};
  regularised["gate"]["stages"] = {{{"density_regulariser", 5}, {"steps", 8}}};
  for (auto* recipe : {&priced, &regularised}) (*recipe)["gate"]["bias"] = 0;  // half open at the start
  const Trained closes = train(priced, scratch / "priced"), opens = train(regularised, scratch / "regularised");
  REQUIRE(closes.means.front() == opens.means.front());
  CHECK(closes.means.back() < closes.means.front() - 0.05);
  CHECK(opens.means.back() > opens.means.front() + 0.05);
  // The same first step: loss = nll + price mean(u) and nll - lambda mean(u), so that their mean is the NLL alone.
  nlohmann::json neither = priced;
  neither["gate"]["stages"] = {{{"steps", 1}}};
  const Trained plain = train(neither, scratch / "plain");
  CHECK((closes.losses.front() + opens.losses.front()) / 2 == Approx(plain.losses.front()).epsilon(1e-5));
  CHECK(closes.losses.front() - plain.losses.front() == Approx(5 * closes.means.front()).epsilon(1e-4));
  const auto said_by = [&](const char* folder) {
    return read_json(scratch / folder / "gate.json").at("description").get<std::string>();
  };
  CHECK(said_by("priced/sp-kv-5").starts_with("SP-KV, eq. 6, with a price on the mean utility;"));
  CHECK(said_by("regularised/sp-kv-regulariser-5").starts_with("SP-KV, eq. 6 and 13;"));
}

TEST_CASE("a gate's recipe that cannot be is refused by its key, and a foreign corpus by its file") {
  const test::TempFolder scratch;
  const auto refusal = [&](const nlohmann::json& wrong, const fs::path& data = kText) -> std::string {
    try {
      train(wrong, scratch / "out", data);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  auto wrong = recipe("wg-kv");
  wrong["gate"]["method"] = "magic";
  CHECK(refusal(wrong).find(
            "gate.method: magic; expected one of wg-kv, sp-kv, dms, streaming, full, sliding-window, kvzap") !=
        std::string::npos);
  wrong = recipe("wg-kv");
  wrong["gate"]["kernel"] = 5;
  CHECK(refusal(wrong).find("gate.kernel: 5; expected 1, or the method sp-kv") != std::string::npos);
  wrong = recipe("sp-kv");
  wrong["gate"]["kernel"] = 4;
  CHECK(refusal(wrong).find("gate.kernel: 4; expected an odd number") != std::string::npos);
  wrong["gate"]["kernel"] = 35;
  CHECK(refusal(wrong).find(
            "gate.kernel: 35, which looks 17 tokens ahead; expected half of it within the window of 16") !=
        std::string::npos);
  wrong["gate"].update({{"kernel", 5}, {"hidden", 0}});
  CHECK(refusal(wrong).find("gate.kernel: 5 without a hidden layer; expected hidden units") != std::string::npos);
  wrong = recipe("sp-kv");
  wrong["gate"]["stages"][0] = {{"weight", 0.5}, {"steps", 3}};
  CHECK(refusal(wrong).find("gate.stages: \"weight\" of method sp-kv; expected \"price\"") != std::string::npos);
  wrong["gate"]["stages"][0] = {{"price", 0.5}, {"density_regulariser", 0.5}, {"steps", 3}};
  CHECK(refusal(wrong).find("gate.stages: several of weight, price and density_regulariser") != std::string::npos);
  wrong = recipe("wg-kv");
  wrong["gate"]["stages"][0] = {{"price", 0.5}, {"steps", 3}};
  CHECK(refusal(wrong).find("gate.stages: a price or density_regulariser of method wg-kv") != std::string::npos);
  wrong = recipe("wg-kv");
  wrong["gate"]["steps"] = 3;
  CHECK(refusal(wrong).find("gate.steps") != std::string::npos);
  wrong = recipe("wg-kv");
  wrong["gate"]["stages"][1]["weight"] = 0.5;
  CHECK(refusal(wrong).find("gate.stages: two stages with the same weight") != std::string::npos);
  wrong = recipe("wg-kv");
  wrong["data"]["length"] = 100000;
  CHECK(refusal(wrong).find("data.length: 100000; expected at most the base's context") != std::string::npos);
  wrong = recipe("wg-kv");
  wrong["model"] = nlohmann::json::object();
  CHECK(refusal(wrong).find("model: a section; expected none") != std::string::npos);
  CHECK(refusal(recipe("wg-kv"), scratch / "nothing").find("no such file or folder; expected a text file") !=
        std::string::npos);
}
