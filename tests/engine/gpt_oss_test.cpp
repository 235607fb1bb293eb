// gpt-oss: biases and a clamped activation of experts, sink logits in what policies estimate, and packed weights.
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/core/files/weights/mxfp4.h"
#include "engine/decode/generation_batch.h"
#include "engine/jobs/train/decoder_module.h"
#include "engine/model/expert_mlp.h"
#include "tests/engine/plain_rules.h"
#include "tests/engine/policy_cases.h"
#include "tests/engine/small_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/model_folder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

constexpr int kTokens = 90, kPrompt = 60;

ModelConfig small_gpt_oss() { return test::family_config(*find_family("GptOssForCausalLM")); }

engine::LoadedModel random_model(const ModelConfig& config) {
  return engine::LoadedModel::random(config, 3, {"cpu", "float32"});
}

/// The definition, one token and one expert after the other in double.
at::Tensor by_loops(const at::Tensor& n, const engine::LayerWeights& weights, const ExpertConfig& experts) {
  const auto wide = [](const at::Tensor& x) { return x.to(at::kDouble); };
  const at::Tensor x = wide(n), logits = x.matmul(wide(weights.router).t()) + wide(weights.router_bias);
  at::Tensor out = at::zeros_like(x);
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    const auto [value, index] = logits[t].topk(experts.per_token);
    const at::Tensor weight = value.softmax(0);
    for (int i = 0; i < experts.per_token; ++i) {
      const std::int64_t e = index[i].item<std::int64_t>();
      const at::Tensor gate_up = wide(weights.gate_up[e]).matmul(x[t]) + wide(weights.gate_up_bias[e]);
      const at::Tensor gate = gate_up.narrow(0, 0, experts.intermediate).clamp_max(7);
      const at::Tensor up = gate_up.narrow(0, experts.intermediate, experts.intermediate).clamp(-7, 7);
      const at::Tensor a = gate * at::sigmoid(gate * 1.702) * (up + 1);
      out[t].add_(weight[i] * (wide(weights.down[e]).matmul(a) + wide(weights.down_bias[e])));
    }
  }
  return out;
}

TEST_CASE("gpt-oss: a prompt's experts are the sum that defines them", "[engine][gpt_oss]") {
  const engine::LoadedModel model = random_model(small_gpt_oss());
  const int n_tokens = GENERATE(1, 70, 300);
  const at::Tensor n = at::randn({n_tokens, 128}, at::kFloat) * 4;  // many pass the limit of 7
  const engine::LayerWeights& layer = model.weights().layers[1];
  const ExpertConfig& experts = model.config().layers[1].experts;
  const at::Tensor expected = by_loops(n, layer, experts);
  const at::Tensor found = engine::expert_mlp(n, layer, experts, MlpActivation::clamped);
  CHECK((found - expected).abs().max().item<double>() < 1e-4 * expected.abs().max().item<double>());
}

TEST_CASE("gpt-oss: everything that a layer has reaches a prompt and a decode step", "[engine][gpt_oss]") {
  const auto ids = test::some_ids(kTokens);
  const ModelConfig config = small_gpt_oss();
  const engine::LoadedModel model = random_model(config);
  const auto logits = [&](int prompt_len) { return test::feed(model, ids, prompt_len, "full").logits; };
  const std::vector<float> before = logits(1);
  CHECK(test::relative_difference(logits(kTokens), before) < 1e-4);
  engine::LayerWeights layer = model.weights().layers[1];
  at::Tensor* const parts[] = {&layer.o_bias, &layer.router_bias, &layer.gate_up_bias, &layer.down_bias, &layer.sink};
  for (at::Tensor* part : parts) {
    CAPTURE(part->sizes());
    const at::Tensor kept = part->clone();
    part->normal_(1, 2);
    const std::vector<float> stepped = logits(1);
    CHECK(test::relative_difference(stepped, before) > 1e-3);
    CHECK(test::relative_difference(logits(kTokens), stepped) < 1e-4);
    part->copy_(kept);
  }
}

TEST_CASE("gpt-oss: a run has the same bits alone and in a batch", "[engine][gpt_oss][batch]") {
  const char* dtype = GENERATE("float32", "bfloat16");
  const engine::LoadedModel model = engine::LoadedModel::random(small_gpt_oss(), 3, {"cpu", dtype});
  constexpr int kRuns = 9;
  const auto request = [](int i) { return test::request(test::some_ids(20 + 13 * i, 512, 7 + i), "full", 12); };
  std::vector<engine::Generation> runs;
  for (int i = 0; i < kRuns; ++i) runs.emplace_back(model, request(i));
  engine::GenerationBatch batch(model, kRuns);
  for (engine::Generation& run : runs) {
    run.prefill();
    batch.join(run);
  }
  for (int step = 0; step < 12; ++step) {
    for (const auto& one : batch.step()) REQUIRE_FALSE(one.error);
  }
  for (int i = 0; i < kRuns; ++i) {
    CAPTURE(i);
    engine::Generation alone(model, request(i));
    alone.prefill();
    while (!alone.finished()) alone.step();
    const auto found = runs[static_cast<std::size_t>(i)].logits(), expected = alone.logits();
    CHECK(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
  }
}

TEST_CASE("a sink logit takes part in what Expected Attention expects", "[engine][gpt_oss][rules]") {
  ModelConfig config = test::small_config();
  for (LayerConfig& layer : config.layers) layer.attention.has_sink = true;
  const engine::LoadedModel model = random_model(config);
  for (const engine::LayerWeights& layer : model.weights().layers)
    at::Tensor(layer.sink).copy_(at::tensor({-3.0f, 6.0f, 5.0f, 0.0f}));  // of a group, one head counts little
  const auto ids = test::some_ids(kTokens, 512, 21);
  const std::vector<test::PlainLayer> layers = test::dense_layers(model, ids);
  const at::Tensor inv_freq = model.weights().layers[0].inv_freq.to(at::kDouble).contiguous();
  const std::vector<double> frequencies(inv_freq.data_ptr<double>(), inv_freq.data_ptr<double>() + inv_freq.numel());
  const RunRecord run = test::feed(model, ids, kPrompt, "expected-attention:budget=24,interval=0,future=32").record;
  int changed = 0;
  for (const int layer : {0, 1}) {
    for (const int head : {0, 1}) {
      CAPTURE(layer, head);
      const auto by_loops = [&](const test::PlainLayer& of) {
        std::vector<int> held = test::range(kPrompt);
        test::Evictions out;
        const auto scores = test::expected_scores(of, frequencies, head, held, 4, kPrompt, 4, 32, {true, true, 0});
        test::keep_best(held, scores, 24, 4, kPrompt, kPrompt, out);
        return out;
      };
      test::PlainLayer plain = layers[static_cast<std::size_t>(layer)];
      CHECK(test::evictions(run, layer, head, kTokens) == by_loops(plain));
      plain.sink.clear();
      changed += test::evictions(run, layer, head, kTokens) != by_loops(plain);
    }
  }
  CHECK(changed > 0);
}

TEST_CASE("gpt-oss: training refuses it in one line", "[engine][gpt_oss]") {
  CHECK(test::error_of([&] { engine::DecoderModule(small_gpt_oss(), 16, at::kCPU, at::kFloat, /*trained=*/false); }) ==
        "model: layer 0: a sink logit of attention; expected attention without it, for training");
}

/// Tensors of a file, of float32 or of bytes.
struct Tensors {
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> floats;
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<std::uint8_t>>> bytes;
  /// By hand: write_safetensors() writes floats alone.
  void write(const std::filesystem::path& path) const {
    nlohmann::json header;
    std::string data;
    const auto add = [&](const char* type, const auto& all) {
      for (const auto& [name, one] : all) {
        const std::size_t begin = data.size();
        data.append(reinterpret_cast<const char*>(one.second.data()), std::as_bytes(std::span(one.second)).size());
        header[name] = {{"dtype", type}, {"shape", one.first}, {"data_offsets", {begin, data.size()}}};
      }
    };
    add("F32", floats);
    add("U8", bytes);
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::ofstream(path, std::ios::binary) << std::string(reinterpret_cast<const char*>(&length), 8) << text << data;
  }
};

/// Weights of a model whose experts are numbers that MXFP4 has: packed, or unpacked and turned.
Tensors weights_of(const ModelConfig& config, bool packed) {
  Tensors out;
  for (const auto& [name, shape] : test::tensor_shapes(config)) {
    if (!name.ends_with("gate_up_proj") && !name.ends_with("down_proj")) {
      out.floats[name] = {shape, test::formula_tensor(name, shape, 7)};
      continue;
    }
    const std::int64_t n = shape[0], columns = shape[1], rows = shape[2], n_blocks = n * rows * columns / 32;
    std::vector<std::uint8_t> blocks(static_cast<std::size_t>(n_blocks * 16)),
        scales(static_cast<std::size_t>(n_blocks));
    std::uint32_t draw = static_cast<std::uint32_t>(name.size());
    for (std::uint8_t& byte : blocks) byte = static_cast<std::uint8_t>((draw = draw * 1664525 + 1013904223) >> 24);
    for (std::uint8_t& byte : scales)
      byte = static_cast<std::uint8_t>(122 + (draw = draw * 1664525 + 1013904223) / (1u << 30));
    if (packed) {
      out.bytes[name + kPackedSuffix] = {{n, rows, columns / 32, 16}, blocks};
      out.bytes[name + kScalesSuffix] = {{n, rows, columns / 32}, scales};
      continue;
    }
    std::vector<float> turned(static_cast<std::size_t>(n * columns * rows));
    for (std::int64_t i = 0; i < n_blocks; ++i) {
      float numbers[kPackedNumbers];
      unpack_mxfp4(blocks.data() + i * 16, scales[static_cast<std::size_t>(i)], numbers);
      for (std::int64_t j = 0; j < 32; ++j) {
        const std::int64_t at = i * 32 + j, column = at % columns, row = at / columns % rows,
                           expert = at / columns / rows;
        turned[static_cast<std::size_t>((expert * columns + column) * rows + row)] = numbers[j];
      }
    }
    out.floats[name] = {shape, std::move(turned)};
  }
  return out;
}

/// A folder with a configuration and a tokenizer; its weights are written over.
nlohmann::json write_folder(const test::TempFolder& folder) {
  nlohmann::json config = test::small_model_config("GptOssForCausalLM");
  test::write_model_folder(folder.path(), config, 7);
  return config;
}

TEST_CASE("gpt-oss: gate and up rows by turns are laid out as gate, then up", "[engine][gpt_oss][load]") {
  const test::TempFolder folder;
  write_folder(folder);
  const engine::LoadedModel model = engine::LoadedModel::load(folder.path(), {"cpu", "float32"});
  const engine::LayerWeights& layer = model.weights().layers[1];
  const std::string all = "model.layers.1.mlp.experts.";
  const std::vector<float> gate_up = test::formula_tensor(all + "gate_up_proj", {3, 64, 64}, 7),
                           bias = test::formula_tensor(all + "gate_up_proj_bias", {3, 64}, 7),
                           down = test::formula_tensor(all + "down_proj", {3, 32, 64}, 7);
  REQUIRE(layer.gate_up.sizes() == at::IntArrayRef({3, 64, 64}));
  REQUIRE(layer.down.sizes() == at::IntArrayRef({3, 64, 32}));
  const auto found = layer.gate_up.accessor<float, 3>(), found_down = layer.down.accessor<float, 3>();
  const auto found_bias = layer.gate_up_bias.accessor<float, 2>();
  bool same = true;
  for (int e = 0; e < 3; ++e) {
    for (int row = 0; row < 64; ++row) {
      const int in_file = row < 32 ? 2 * row : 2 * (row - 32) + 1;
      same = same && found_bias[e][row] == bias[static_cast<std::size_t>(e * 64 + in_file)];
      for (int c = 0; c < 64; ++c)
        same = same && found[e][row][c] == gate_up[static_cast<std::size_t>((e * 64 + c) * 64 + in_file)];
      for (int c = 0; c < 32; ++c)
        same = same && found_down[e][row][c] == down[static_cast<std::size_t>((e * 32 + c) * 64 + row)];
    }
  }
  CHECK(same);
}

TEST_CASE("gpt-oss: packed experts are the numbers that they stand for", "[engine][gpt_oss][load]") {
  const test::TempFolder folder;
  write_folder(folder);
  const ModelConfig config = ModelConfig::load(folder.path());
  const char* dtype = GENERATE("float32", "bfloat16");
  weights_of(config, /*packed=*/false).write(folder / "model.safetensors");
  const engine::LoadedModel plain = engine::LoadedModel::load(folder.path(), {"cpu", dtype});
  weights_of(config, /*packed=*/true).write(folder / "model.safetensors");
  const engine::LoadedModel packed = engine::LoadedModel::load(folder.path(), {"cpu", dtype});
  for (const std::size_t i : {0, 1}) {
    CHECK(at::equal(packed.weights().layers[i].gate_up, plain.weights().layers[i].gate_up));
    CHECK(at::equal(packed.weights().layers[i].down, plain.weights().layers[i].down));
  }
  CHECK(packed.info().n_parameters == plain.info().n_parameters);
}

TEST_CASE("gpt-oss: packed experts that do not fit are refused by name", "[engine][gpt_oss][load]") {
  const test::TempFolder folder;
  nlohmann::json json = write_folder(folder);
  const ModelConfig config = ModelConfig::load(folder.path());
  const std::string name = "model.layers.1.mlp.experts.down_proj";
  const auto error_with = [&](const Tensors& tensors) {
    tensors.write(folder / "model.safetensors");
    return test::error_of([&] { engine::LoadedModel::load(folder.path(), {"cpu", "float32"}); });
  };
  Tensors tensors = weights_of(config, true);
  tensors.bytes.erase(name + "_scales");
  CHECK_THAT(error_with(tensors), Catch::Contains(name + "_scales: tensor missing; expected shape [3, 64, 1]"));
  tensors = weights_of(config, true);
  tensors.bytes[name + "_blocks"].first = {3, 64, 16, 1};
  CHECK_THAT(error_with(tensors), Catch::Contains(name + "_blocks: shape [3, 64, 16, 1]; expected [3, 64, 1, 16]"));
  tensors = weights_of(config, true);
  tensors.bytes.erase(name + "_scales");
  tensors.floats[name + "_scales"] = {{3, 64, 1}, std::vector<float>(192)};
  CHECK_THAT(error_with(tensors), Catch::Contains(name + "_scales: dtype F32 is not supported; expected U8"));
}

}  // namespace
}  // namespace kvscope
