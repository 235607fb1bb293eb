// Weights from real files: every type, one file and several, by several threads, stopped and damaged on the way.
#include "engine/model/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engine/model/weights.h"
#include "engine/scorer/loaded_model.h"
#include "kernels/device.h"
#include "tests/support/expect_error.h"
#include "tests/support/model_folder.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

namespace fs = std::filesystem;
using engine::LoadedModel;
using engine::Weights;

at::ScalarType torch_type(TensorType type) {
  return type == TensorType::f32 ? at::kFloat : type == TensorType::f16 ? at::kHalf : at::kBFloat16;
}

/// Its embedding alone is 20 MB in float32: several parts, the last one short.
nlohmann::json wide_config(const std::string& architecture = "Qwen2ForCausalLM") {
  nlohmann::json config = test::small_model_config(architecture);
  config["hidden_size"] = 1232;
  config["head_dim"] = 64;  // of another size CUDA has no kernel, and the model is refused
  config["tie_word_embeddings"] = false;
  return config;
}

/// All tensors of a model, in an order of their own.
std::vector<at::Tensor> all_tensors(const Weights& weights) {
  std::vector<at::Tensor> out{weights.embed, weights.final_norm, weights.lm_head};
  for (const engine::LayerWeights& layer : weights.layers) {
    for (const at::Tensor& tensor :
         {layer.input_norm,   layer.qkv_proj,     layer.qkv_bias,    layer.q_norm,       layer.k_norm,
          layer.whole_q_norm, layer.whole_k_norm, layer.o_proj,      layer.post_norm,    layer.attention_out_norm,
          layer.mlp_out_norm, layer.router,       layer.gate_up,     layer.down,         layer.inv_freq,
          layer.o_bias,       layer.sink,         layer.router_bias, layer.gate_up_bias, layer.down_bias}) {
      if (tensor.defined()) out.push_back(tensor);
    }
  }
  return out;
}

void check_same(const Weights& a, const Weights& b) {
  const std::vector<at::Tensor> x = all_tensors(a), y = all_tensors(b);
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(i);
    CHECK(at::equal(x[i], y[i]));
  }
  CHECK(a.n_parameters == b.n_parameters);
}

/// Draws the formula's tensors, rounds them to the file's type, and lays them out one by one.
Weights expected_weights(const fs::path& folder, TensorType type, at::ScalarType dtype, c10::Device device) {
  const engine::TensorSource source = engine::formula_source(7);
  return engine::build_weights(
      ModelConfig::load(folder),
      [&](const std::string& name, const std::vector<std::int64_t>& shape) {
        return source(name, shape).to(torch_type(type));
      },
      device, dtype);
}

void check_load(const std::string& device, const c10::Device& torch_device) {
  const auto type = GENERATE(TensorType::f32, TensorType::f16, TensorType::bf16);
  const int n_shards = GENERATE(1, 3);
  const std::string dtype = GENERATE("float32", "bfloat16");
  const test::TempFolder folder;
  test::write_model_folder(folder.path(), wide_config(), 7, {type, n_shards});
  CAPTURE(type, n_shards, dtype);
  const LoadedModel model = LoadedModel::load(folder.path(), {device, dtype});
  check_same(model.weights(),
             expected_weights(folder.path(), type, dtype == "float32" ? at::kFloat : at::kBFloat16, torch_device));
}

TEST_CASE("weights of every type, from one file or several, are the file's numbers rounded once", "[engine][load]") {
  check_load("cpu", c10::kCPU);
}

TEST_CASE("weights of every type, from one file or several, reach a CUDA device as they are", "[engine][load][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  check_load("cuda", c10::Device(c10::kCUDA, 0));
}

TEST_CASE("each family finds its own tensors, and needs them all", "[engine][load]") {
  const ModelFamily& family = model_families()[GENERATE(range(std::size_t{0}, model_families().size()))];
  const bool tied = GENERATE(true, false);
  nlohmann::json config = test::small_model_config(family.architecture);
  config["tie_word_embeddings"] = tied;
  const test::TempFolder folder;
  test::write_model_folder(folder.path(), config, 7);
  CAPTURE(family.architecture, tied);
  const LoadedModel model = LoadedModel::load(folder.path(), {"cpu", "float32"});
  check_same(model.weights(), expected_weights(folder.path(), TensorType::f32, at::kFloat, c10::kCPU));
  CHECK(model.weights().lm_head.is_same(model.weights().embed) == tied);
  const LayerConfig& layer = model.config().layers[0];
  CHECK(model.weights().layers[0].qkv_bias.defined() == layer.qkv_bias);
  CHECK(model.weights().layers[0].q_norm.defined() == (layer.qk_norm == QkNorm::heads));
  CHECK(model.weights().layers[0].whole_q_norm.defined() == (layer.qk_norm == QkNorm::whole));
  CHECK(model.weights().layers[0].input_norm.defined() == (layer.norms != NormPlacement::after));
  CHECK(model.weights().layers[0].sink.defined() == layer.attention.has_sink);
  CHECK(model.weights().layers[0].mlp_out_norm.defined() == (layer.norms != NormPlacement::before));
  CHECK(model.weights().layers[0].router.defined() == (layer.mlp == MlpKind::experts));
  CHECK(model.weights().layers[0].o_bias.defined() == layer.o_bias);
  CHECK(model.weights().layers[0].down_bias.defined() == layer.experts.biased);
  // Without any one of them the model does not load, and the line says which.
  for (const auto& [missing, shape] : test::tensor_shapes(model.config())) {
    std::vector<TensorToWrite> others;
    const std::vector<float> zeros(static_cast<std::size_t>(4096 * 64));
    for (const auto& [name, other] : test::tensor_shapes(model.config())) {
      std::size_t n = 1;
      for (const std::int64_t size : other) n *= static_cast<std::size_t>(size);
      if (name != missing) others.push_back({name, TensorType::f32, other, std::as_bytes(std::span(zeros).first(n))});
    }
    write_safetensors(folder / "model.safetensors", others);
    CHECK_THAT(test::error_of([&] {
                 LoadedModel::load(folder.path(), {"cpu", "float32"});
               }),
               Catch::Contains("model.safetensors: " + missing + ": tensor missing; expected shape ["));
  }
}

TEST_CASE("progress of loading begins at nothing, never falls, and ends at all bytes of the weights",
          "[engine][load]") {
  const int n_shards = GENERATE(1, 3);
  const test::TempFolder folder;
  test::write_model_folder(folder.path(), wide_config(), 7, {TensorType::bf16, n_shards});
  std::vector<std::int64_t> done, totals;
  const LoadedModel model = LoadedModel::load(folder.path(), {"cpu", "float32"}, [&](std::int64_t d, std::int64_t t) {
    done.push_back(d);
    totals.push_back(t);
  });
  REQUIRE(done.size() >= 2);
  CHECK(done.front() == 0);
  CHECK(std::is_sorted(done.begin(), done.end()));
  CHECK(done.back() == 2 * model.weights().n_parameters);
  CHECK(std::count(totals.begin(), totals.end(), done.back()) == static_cast<std::ptrdiff_t>(totals.size()));
}

TEST_CASE("loading stops when its progress throws, and the exception is the caller's", "[engine][load]") {
  const test::TempFolder folder;
  test::write_model_folder(folder.path(), wide_config(), 7);
  struct Stop {};
  const int after = GENERATE(0, 1, 2);
  int calls = 0;
  const auto stop = [&](std::int64_t, std::int64_t) {
    if (calls++ == after) throw Stop();
  };
  try {
    LoadedModel::load(folder.path(), {"cpu", "float32"}, stop);
    CHECK(calls <= after);  // so fast that nobody asked again
  } catch (const Stop&) {
    CHECK(calls == after + 1);
  }
}

TEST_CASE("of several parts that cannot be read, the first in the file is named, every time", "[engine][load]") {
  const test::TempFolder folder;
  test::write_model_folder(folder.path(), wide_config(), 7);
  const ModelConfig config = ModelConfig::load(folder.path());
  const WeightFiles files = WeightFiles::open(folder.path());
  engine::CheckpointReader reader(files, {});
  // Cut behind the reader's back within the first tensor, lm_head: everything after is missing too.
  const fs::path path = folder / "model.safetensors";
  fs::resize_file(path, 1'000'000);
  for (int i = 0; i < 10; ++i) {
    CHECK(test::error_of([&] { engine::build_weights(config, reader, c10::kCPU, at::kFloat); }) ==
          path.string() + ": the file ended at byte 1000000; expected the size it had when it was opened");
  }
}

TEST_CASE("a configuration far larger than its weights is refused before memory is taken", "[engine][load]") {
  const test::TempFolder folder;
  test::write_model_folder(folder.path(), test::small_model_config(), 7);
  nlohmann::json config = test::small_model_config();
  config["vocab_size"] = 1 << 22;
  config["hidden_size"] = 1 << 14;
  std::ofstream(folder / "config.json") << config.dump();
  CHECK_THAT(test::error_of([&] {
               LoadedModel::load(folder.path(), {"cpu", "float32"});
             }),
             Catch::Contains("model.embed_tokens.weight: shape [4096, 64]; expected [4194304, 16384]"));
}

}  // namespace
}  // namespace kvscope
