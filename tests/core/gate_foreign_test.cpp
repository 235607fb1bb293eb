// The folders of KVzap, DMS and DuoAttention.
#include <catch2/catch.hpp>

#include "engine/core/files/gate/duo_directory.h"
#include "tests/core/gate_support.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::test;
using nlohmann::json;

namespace {

json qwen_config() {
  return {{"model_type", "qwen3"},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"hidden_size", 10},
          {"head_dim", 4},
          {"rms_norm_eps", 1e-5},
          {"dms_window_size", 512},
          {"dms_alpha_scale", 100.0},
          {"dms_initial_alpha_offset", 5.0},
          {"dms_cr", 8}};
}

}  // namespace

TEST_CASE("gate: KVzap's folders are read, linear and MLP, under both names of their modules", "[core][gate]") {
  const std::string prefix = GENERATE(as<std::string>{}, "layers.", "module_list.");
  const TempFolder folder;
  json config = {
      {"model_type", "kvzap"}, {"input_dim", 10}, {"output_dim", 2}, {"n_modules", 3}, {"hidden_dim", nullptr}};
  folder.write("config.json", config.dump());
  NamedShapes shapes;
  for (int i = 0; i < 3; ++i) {
    shapes[prefix + std::to_string(i) + ".weight"] = {2, 10};
    shapes[prefix + std::to_string(i) + ".bias"] = {2};
  }
  auto values = write_random(folder / "model.safetensors", shapes);
  CHECK(gate_format(folder.path()) == "kvzap");
  const GateFile linear = load_gate(folder.path(), small_model());
  CHECK(linear.config.kind == GateKind::kvzap_linear);
  CHECK(linear.config.threshold == -4);
  CHECK_FALSE(linear.config.sigmoid);
  CHECK(linear.tensors.at("w2") == GateTensor{{3, 2, 10}, stacked(values, prefix, ".weight")});
  CHECK(linear.tensors.at("b2") == GateTensor{{3, 2}, stacked(values, prefix, ".bias")});

  config["hidden_dim"] = 6;
  folder.write("config.json", config.dump());
  CHECK_THAT(load_error(folder.path()),
             Catch::Contains("no tensor layers.{layer}.2.weight; expected the modules of KVzap"));
  shapes.clear();
  for (int i = 0; i < 3; ++i) {
    const std::string layer = prefix + std::to_string(i);
    shapes[layer + ".0.weight"] = {6, 10};
    shapes[layer + ".0.bias"] = {6};
    shapes[layer + ".2.weight"] = {2, 6};
    shapes[layer + ".2.bias"] = {2};
  }
  values = write_random(folder / "model.safetensors", shapes);
  const GateFile mlp = load_gate(folder.path(), small_model());
  CHECK(mlp.config.kind == GateKind::kvzap_mlp);
  CHECK(mlp.config.n_hidden == 6);
  CHECK(mlp.config.activation == Activation::gelu);
  CHECK(mlp.dims == GateDims{3, 2, 0, 10});
  CHECK(mlp.tensors.at("w1") == GateTensor{{3, 6, 10}, stacked(values, prefix, ".0.weight")});
  CHECK(mlp.tensors.at("b1") == GateTensor{{3, 6}, stacked(values, prefix, ".0.bias")});
  CHECK(mlp.tensors.at("w2") == GateTensor{{3, 2, 6}, stacked(values, prefix, ".2.weight")});
  CHECK(mlp.tensors.at("b2") == GateTensor{{3, 2}, stacked(values, prefix, ".2.bias")});

  config["input_dim"] = 12;
  folder.write("config.json", config.dump());
  CHECK_THAT(load_error(folder.path()), Catch::Contains("config.json: a gate of hidden_size 12; expected 10"));
  CHECK_THAT(error_of([&] { load_gate(folder.path()); }),
             Catch::Contains("model.safetensors: " + prefix + "0.0.weight: shape [6, 10]; expected [6, 12]"));
  config["input_dim"] = 10;
  folder.write("config.json", config.dump());
  shapes.erase(prefix + "1.2.bias");
  write_random(folder / "model.safetensors", shapes);
  CHECK_THAT(load_error(folder.path()),
             Catch::Contains(prefix + "1.2.bias: tensor missing; expected one of shape [H]"));
}

TEST_CASE("gate: a DMS model's own configuration is its gate, with the sign turned", "[core][gate]") {
  const TempFolder folder;
  json config = qwen_config();
  folder.write("config.json", config.dump());
  CHECK(gate_format(folder.path()) == "dms");
  const GateFile gate = load_gate(folder.path(), small_model());
  CHECK(gate.config.kind == GateKind::dms);
  CHECK(gate.config.scale == 100);
  CHECK(gate.config.offset == -5);
  CHECK(gate.config.negated);
  CHECK(gate.config.threshold == 0);
  CHECK_FALSE(gate.config.strict);
  CHECK(gate.config.delay == 1);
  CHECK(gate.config.window == 513);
  CHECK(gate.tensors.empty());
  CHECK(gate.dims == GateDims{3, 2, 0, 0});
  CHECK(gate.description == "dms of 3 layers x 2 KV heads, delay 1, kept if score >= 0, trained for 1/8");

  config["dms_alpha_per"] = "layer";
  config["dms_alpha_scale"] = 50;
  config["dms_initial_alpha_offset"] = 2;
  config["dms_window_size"] = 256;
  folder.write("config.json", config.dump());
  const GateFile other = load_gate(folder.path());
  CHECK(other.config.per_layer);
  CHECK(other.config.scale == 50);
  CHECK(other.config.offset == -2);
  CHECK(other.config.window == 257);

  ModelConfig model = small_model();
  model.n_layers = 4;
  CHECK_THAT(error_of([&] { load_gate(folder.path(), model); }), Catch::Contains("a gate of n_layers 3; expected 4"));
  config["dms_disable_eviction"] = true;
  folder.write("config.json", config.dump());
  CHECK_THAT(load_error(folder.path()),
             Catch::Contains("dms_disable_eviction: true: the model's gates are switched off"));
  config.erase("dms_disable_eviction");
  config["dms_alpha_per"] = "token";
  folder.write("config.json", config.dump());
  CHECK_THAT(load_error(folder.path()), Catch::Contains("dms_alpha_per: \"token\"; expected head or layer"));
}

TEST_CASE("gate: FastDMS's metadata goes before config.json, nested or not", "[core][gate]") {
  const TempFolder folder;
  json config = qwen_config();
  config["dms_alpha_per"] = "layer";
  folder.write("config.json", config.dump());
  const json numbers = {{"window_size", 128}, {"alpha_scale", 80}, {"alpha_offset", 4}, {"target_cr", 16}};
  for (const json& metadata : {numbers, json{{"config", numbers}}}) {
    folder.write("dms_metadata.json", metadata.dump());
    const GateFile gate = load_gate(folder.path(), small_model());
    CHECK(gate.config.window == 129);
    CHECK(gate.config.scale == 80);
    CHECK(gate.config.offset == -4);
    CHECK(gate.config.per_layer);  // the metadata has no say in it
    CHECK_THAT(gate.description, Catch::EndsWith("trained for 1/16"));
  }
  folder.write("dms_metadata.json", "{}");
  CHECK(load_gate(folder.path()).config.window == 257);  // FastDMS's own default
  folder.write("dms_metadata.json", R"({"sidecar":{"path":"x.safetensors"}})");
  CHECK_THAT(load_error(folder.path()), Catch::Contains("sidecar: a gate in a separate file"));
}

TEST_CASE("gate: DMS with separate projections takes them from the model's weights", "[core][gate]") {
  const TempFolder folder;
  json config = qwen_config();
  config["dms_separate_alpha"] = true;
  folder.write("config.json", config.dump());
  const std::string before = "model.layers.", attention = ".self_attn.dms_proj_alpha";
  NamedShapes shapes = {{"model.norm.weight", {10}}};
  for (int i = 0; i < 3; ++i) {
    shapes[before + std::to_string(i) + attention + "_norm.weight"] = {10};
    shapes[before + std::to_string(i) + attention + ".weight"] = {2, 10};
  }
  const auto values = write_random(folder / "model.safetensors", shapes);
  const GateFile gate = load_gate(folder.path(), small_model());
  CHECK(gate.config.kind == GateKind::dms_separate);
  CHECK(gate.config.norm_eps == 1e-5);
  CHECK(gate.tensors.at("norm") == GateTensor{{3, 10}, stacked(values, before, attention + "_norm.weight")});
  CHECK(gate.tensors.at("w2") == GateTensor{{3, 2, 10}, stacked(values, before, attention + ".weight")});
  CHECK(gate.tensors.at("b2") == GateTensor{{3, 2}, std::vector<float>(6, 0.0f)});
  for (int i = 0; i < 3; ++i) shapes[before + std::to_string(i) + attention + ".bias"] = {2};
  const auto biased = write_random(folder / "model.safetensors", shapes);
  CHECK(load_gate(folder.path()).tensors.at("b2").values == stacked(biased, before, attention + ".bias"));
  shapes[before + "2" + attention + ".weight"] = {4, 10};
  write_random(folder / "model.safetensors", shapes);
  CHECK_THAT(load_error(folder.path()),
             Catch::Contains("model.layers.2.self_attn.dms_proj_alpha.weight: shape [4, 10]; expected [2, 10]"));
}

TEST_CASE("gate: DuoAttention's directory is a gate of one number a head", "[core][gate]") {
  const TempFolder folder;
  const HeadSelection heads{.n_layers = 3, .n_kv_heads = 2, .full = {1, 0, 0.75f, 0.25f, 0, 1}};
  export_duo(heads, 64, 256, folder.path(), false);
  CHECK(gate_format(folder.path()) == "duo");
  const GateFile gate = load_gate(folder.path(), small_model());
  CHECK(gate.config.kind == GateKind::duo);
  CHECK(gate.config.n_sink == 64);
  CHECK(gate.config.window == 256);
  CHECK(gate.config.threshold == 0.5);
  CHECK(gate.tensors.at("alpha") == GateTensor{{3, 2}, heads.full});
  CHECK(load_gate(folder / "full_attention_heads.tsv").hash == gate.hash);
  ModelConfig model = small_model();
  model.n_kv_heads = 4;
  CHECK_THAT(error_of([&] { load_gate(folder.path(), model); }),
             Catch::Contains("full_attention_heads.tsv: alpha: shape [3, 2]; expected [3, 4]"));
}
