// Every other format, and the round trip of every kind through our own.
#include <catch2/catch.hpp>
#include <fstream>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/gate/gate_shapes.h"
#include "engine/core/files/weights/safetensors.h"
#include "engine/core/study/head_selection.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/random.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::test;
using nlohmann::json;

namespace {

/// L 3, H 2, D 4, F 10.
ModelConfig small_model() {
  ModelConfig model;
  model.n_layers = 3;
  model.n_heads = 4;
  model.n_kv_heads = 2;
  model.head_dim = 4;
  model.hidden_size = 10;
  return model;
}

std::vector<float> random_values(std::uint64_t seed, const std::vector<std::int64_t>& shape) {
  Random random(seed);
  std::size_t n = 1;
  for (const auto size : shape) n *= static_cast<std::size_t>(size);
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(random.normal());
  return out;
}

/// A gate of the kind with random tensors, as a reader would have made it for small_model().
GateFile random_gate(GateKind kind, int n_hidden) {
  GateFile gate{.config = default_gate_config(kind)};
  gate.config.n_hidden = n_hidden;
  gate.config.threshold = 0.25;
  gate.config.n_sink = 7;
  if (n_hidden == 0) gate.config.activation = "identity";
  gate.description = "made up";
  const GateSizes sizes({3, 2, 4, 10}, n_hidden);
  std::string letters = kind == GateKind::dms ? "LH" : "";
  for (const GateTensorSpec& spec : gate_tensor_specs(gate.config)) {
    const auto shape = sizes.shape(spec.shape);
    gate.tensors[spec.name] = {shape, random_values(gate.tensors.size(), shape)};
    letters += spec.shape;
  }
  const auto has = [&](char letter) { return letters.find(letter) != letters.npos; };
  gate.dims = {3, 2, has('D') ? 4 : 0, has('F') ? 10 : 0};
  return gate;
}

void write_tensors(const std::filesystem::path& path,
                   const std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>>& tensors) {
  std::vector<TensorToWrite> out;
  for (const auto& [name, tensor] : tensors) {
    out.push_back({name, TensorType::f32, tensor.first, std::as_bytes(std::span(tensor.second))});
  }
  write_safetensors(path, out);
}

/// Random tensors under these names and shapes; gives back the values.
using Named = std::map<std::string, std::vector<std::int64_t>>;
std::map<std::string, std::vector<float>> write_random(const std::filesystem::path& path, const Named& shapes) {
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> tensors;
  std::map<std::string, std::vector<float>> values;
  for (const auto& [name, shape] : shapes) {
    values[name] = random_values(values.size() + 100, shape);
    tensors[name] = {shape, values[name]};
  }
  write_tensors(path, tensors);
  return values;
}

/// Layers 0, 1, 2 after each other.
std::vector<float> stacked(const std::map<std::string, std::vector<float>>& values, const std::string& before,
                           const std::string& after) {
  std::vector<float> out;
  for (int layer = 0; layer < 3; ++layer) {
    const auto& one = values.at(before + std::to_string(layer) + after);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

std::string load_error(const std::filesystem::path& path) {
  return error_of([&] { load_gate(path, small_model()); });
}

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

TEST_CASE("gate: what save_gate writes, load_gate gives back, for every kind", "[core][gate]") {
  const auto [kind, n_hidden] = GENERATE(table<GateKind, int>({{GateKind::kvpop_mlstm, 0},
                                                               {GateKind::kvpop_mlp, 5},
                                                               {GateKind::kvpop_linear, 0},
                                                               {GateKind::sp_kv, 6},
                                                               {GateKind::sp_kv, 0},
                                                               {GateKind::wg_kv, 6},
                                                               {GateKind::dms, 0},
                                                               {GateKind::dms_separate, 0},
                                                               {GateKind::kvzap_linear, 0},
                                                               {GateKind::kvzap_mlp, 6},
                                                               {GateKind::duo, 0}}));
  CAPTURE(name_of(kind), n_hidden);
  const TempFolder folder;
  const GateFile gate = random_gate(kind, n_hidden);
  save_gate(folder / "gate", gate);
  CHECK(gate_format(folder / "gate") == "kvscope");
  const GateFile back = load_gate(folder / "gate", small_model());
  CHECK(back.config == gate.config);
  CHECK(back.tensors == gate.tensors);
  CHECK(back.dims == gate.dims);
  CHECK(back.description == "made up");
  CHECK(back.format == "kvscope");
  CHECK_THAT(back.hash, Catch::Matches("[0-9a-f]{16}"));
  CHECK(load_gate(folder / "gate").hash == back.hash);            // without a model
  CHECK(load_gate(folder / "gate/gate.json").hash == back.hash);  // by its file
  save_gate(folder / "again", back);
  CHECK(read_file(folder / "again/gate.json", 1 << 20) == read_file(folder / "gate/gate.json", 1 << 20));

  GateFile other = gate;
  other.config.threshold = 0.5;
  save_gate(folder / "other", other);
  CHECK(load_gate(folder / "other").hash != back.hash);

  ModelConfig model = small_model();
  model.n_kv_heads = 4;
  CHECK_THAT(error_of([&] { load_gate(folder / "gate", model); }), Catch::Contains("2; expected 4, as the model has"));
}

TEST_CASE("gate: numbers that are wrong, misspelt or do not fit together are refused", "[core][gate]") {
  const TempFolder folder;
  save_gate(folder.path(), random_gate(GateKind::sp_kv, 6));
  const json good = read_json(folder / "gate.json");
  const auto line = [&](const char* key, const json& value) {
    json bad = good;
    bad[key] = value;
    folder.write("gate.json", bad.dump());
    return load_error(folder.path());
  };
  CHECK_THAT(line("format", "x"), Catch::Contains("gate.json: format: \"x\"; expected kvscope-gate"));
  CHECK_THAT(line("version", 2),
             Catch::Contains("version: 2; expected 1; hint: the file was written by a newer program"));
  CHECK_THAT(line("kind", "magic"), Catch::Contains("kind: unknown kind \"magic\"; expected kvpop_mlstm, kvpop_mlp"));
  CHECK_THAT(line("treshold", 0.5), Catch::Contains("treshold: a key that gates do not have"));
  CHECK_THAT(line("threshold", "high"), Catch::Contains("threshold: \"high\"; expected a number"));
  CHECK_THAT(line("activation", "relu"), Catch::Contains("activation: \"relu\"; expected silu, gelu or identity"));
  CHECK_THAT(line("delay", 129), Catch::Contains("delay: a delay of 129 tokens in a window of 128"));
  CHECK_THAT(line("window", -1), Catch::Contains("window: -1; expected an integer from 0"));
  CHECK_THAT(line("n_hidden", 5), Catch::Contains("w1: shape [3, 6, 10]; expected [3, 5, 10]"));
  CHECK_THAT(line("n_hidden", 0), Catch::Contains("w2: shape [3, 2, 6]; expected [3, 2, 10]"));
  CHECK_THAT(line("n_layers", 4), Catch::Contains("a gate of n_layers 4; expected 3, as the model has"));
  CHECK_THAT(line("strict", 1), Catch::Contains("strict: 1; expected true or false"));
  folder.write("gate.json", good.dump());
  CHECK(load_error(folder.path()) == "no error");
  write_random(folder / "gate.safetensors", {{"w1", {3, 6, 10}}, {"b1", {3, 6}}, {"w2", {3, 2, 6}}});
  CHECK_THAT(load_error(folder.path()),
             Catch::Contains("gate.safetensors: b2: tensor missing; expected one of shape [L H]"));
  write_random(folder / "gate.safetensors",
               {{"w1", {3, 6, 10}}, {"b1", {3, 6}}, {"w2", {3, 2, 6}}, {"b2", {3, 2}}, {"b3", {3}}});
  CHECK_THAT(load_error(folder.path()), Catch::Contains("b3: a tensor that sp_kv does not have; expected 4 tensors"));
}

TEST_CASE("gate: the scorer of the sample model is a gate, and keeps its numbers", "[core][gate]") {
  const std::filesystem::path sample = KVSCOPE_SOURCE_DIR "/samples/models/kvscope-tiny";
  CHECK(gate_format(sample) == "kvpop-scorer");
  const ModelConfig model = ModelConfig::load(sample);
  const GateFile gate = load_gate(sample, model);
  CHECK(gate.config.kind == GateKind::kvpop_mlstm);
  CHECK(gate.config.delay == 64);
  CHECK(gate.config.window == 64);
  CHECK(gate.config.n_sink == 4);
  CHECK(gate.config.soft_cap == 0);
  CHECK_FALSE(gate.config.guarded);
  CHECK(gate.dims == GateDims{6, 4, 64, 0});
  CHECK(gate.tensors.at("wq").shape == std::vector<std::int64_t>{6, 4, 128, 32});
  CHECK(gate.tensors.at("out").shape == std::vector<std::int64_t>{6, 4, 192});
  const SafetensorsFile file = SafetensorsFile::open(sample / "kvpop_scorer.safetensors");
  std::vector<float> out(6 * 4 * 192);
  file.read(file.tensors().at("out"), std::as_writable_bytes(std::span(out)));
  CHECK(gate.tensors.at("out").values == out);
  CHECK(load_gate(sample / "kvpop_scorer.json").hash == gate.hash);

  const TempFolder folder;
  save_gate(folder.path(), gate);
  CHECK(load_gate(folder.path(), model).hash == gate.hash);
}

TEST_CASE("gate: a scorer of another method, or with a window other than its delay, is refused", "[core][gate]") {
  const TempFolder folder;
  const auto line = [&](const char* text) {
    folder.write("kvpop_scorer.json", text);
    return load_error(folder.path());
  };
  CHECK_THAT(line(R"({"method":"other","scorer":"mlstm"})"), Catch::Contains("method: \"other\"; expected kvpop"));
  CHECK_THAT(line(R"({"method":"kvpop","scorer":"x"})"), Catch::Contains("scorer: \"x\"; expected mlstm"));
  CHECK_THAT(line(R"({"method":"kvpop","scorer":"mlstm"})"), Catch::Contains("delay: missing"));
  CHECK_THAT(line(R"({"method":"kvpop","scorer":"mlstm","delay":64,"window":32})"),
             Catch::Contains("window: 32, other than the delay; expected 64"));
}

TEST_CASE("gate: KVzap's folders are read, linear and MLP, under both names of their modules", "[core][gate]") {
  const std::string prefix = GENERATE(as<std::string>{}, "layers.", "module_list.");
  const TempFolder folder;
  json config = {
      {"model_type", "kvzap"}, {"input_dim", 10}, {"output_dim", 2}, {"n_modules", 3}, {"hidden_dim", nullptr}};
  folder.write("config.json", config.dump());
  Named shapes;
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
  CHECK(mlp.config.activation == "gelu");
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
  CHECK_THAT(load_error(folder.path()), Catch::Contains("dms_disable_eviction: true: the model evicts nothing"));
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
  CHECK_THAT(load_error(folder.path()), Catch::Contains("sidecar: a gate in a file of its own"));
}

TEST_CASE("gate: DMS with separate projections takes them from the model's weights", "[core][gate]") {
  const TempFolder folder;
  json config = qwen_config();
  config["dms_separate_alpha"] = true;
  folder.write("config.json", config.dump());
  const std::string before = "model.layers.", attention = ".self_attn.dms_proj_alpha";
  Named shapes = {{"model.norm.weight", {10}}};
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

TEST_CASE("gate: a mapping file reads a gate under any names, layer by layer or stacked", "[core][gate]") {
  const TempFolder folder;
  json mapping = {{"format", "kvscope-gate-mapping"},
                  {"version", 1},
                  {"kind", "sp_kv"},
                  {"threshold", 0.3},
                  {"files", {"a.safetensors", "b.safetensors"}},
                  {"tensors", {{"w1", "blocks.{layer}.up"}, {"b1", "blocks.{layer}.up_bias"}, {"w2", "down"}}},
                  {"transpose", {"w1"}}};
  folder.write("gate_mapping.json", mapping.dump());
  Named up;
  for (int i = 0; i < 3; ++i) {
    up["blocks." + std::to_string(i) + ".up"] = {10, 6};
    up["blocks." + std::to_string(i) + ".up_bias"] = {6};
  }
  const auto a = write_random(folder / "a.safetensors", up);
  const auto b = write_random(folder / "b.safetensors", {{"down", {3, 2, 6, 1}}});
  CHECK(gate_format(folder.path()) == "kvscope-mapping");
  const GateFile gate = load_gate(folder.path(), small_model());
  CHECK(gate.config.n_hidden == 6);
  CHECK(gate.config.threshold == 0.3);
  CHECK(gate.config.activation == "silu");
  CHECK(gate.tensors.at("w2") == GateTensor{{3, 2, 6}, b.at("down")});
  CHECK(gate.tensors.at("b1") == GateTensor{{3, 6}, stacked(a, "blocks.", ".up_bias")});
  CHECK(gate.tensors.at("b2") == GateTensor{{3, 2}, std::vector<float>(6, 0.0f)});
  CHECK(gate.tensors.at("w1").shape == std::vector<std::int64_t>{3, 6, 10});
  for (int layer = 0; layer < 3; ++layer) {
    const auto& stored = a.at("blocks." + std::to_string(layer) + ".up");
    for (int m = 0; m < 6; ++m) {
      for (int f = 0; f < 10; ++f) CHECK(gate.tensors.at("w1").values[(layer * 6 + m) * 10 + f] == stored[f * 6 + m]);
    }
  }
  CHECK(load_gate(folder / "gate_mapping.json").hash == gate.hash);

  mapping.erase("transpose");
  folder.write("gate_mapping.json", mapping.dump());
  CHECK_THAT(load_error(folder.path()), Catch::Contains("a.safetensors: blocks.0.up: shape [10, 6]; expected [M, 10]"));
  mapping["transpose"] = {"w1"};
  folder.write("gate_mapping.json", mapping.dump());
  up.erase("blocks.1.up");
  write_random(folder / "a.safetensors", up);
  CHECK_THAT(load_error(folder.path()),
             Catch::Contains("a.safetensors: blocks.1.up: tensor missing; expected one of shape [M F]"));
}

TEST_CASE("gate: a mapping of a linear gate has no hidden layer, whatever names it has", "[core][gate]") {
  const TempFolder folder;
  folder.write("gate_mapping.json", json{{"format", "kvscope-gate-mapping"},
                                         {"version", 1},
                                         {"kind", "sp_kv"},
                                         {"files", {"x.safetensors"}},
                                         {"tensors", {{"w2", "{layer}.w"}}}}
                                        .dump());
  write_random(folder / "x.safetensors", {{"0.w", {2, 10}}, {"1.w", {2, 10}}, {"2.w", {2, 10}}});
  const GateFile gate = load_gate(folder.path(), small_model());
  CHECK(gate.config.n_hidden == 0);
  CHECK(gate.tensors.at("w2").shape == std::vector<std::int64_t>{3, 2, 10});
}

TEST_CASE("gate: a mapping that is wrong is refused by its key", "[core][gate]") {
  const TempFolder folder;
  write_random(folder / "x.safetensors", {{"0.w", {2, 8}}});
  const json good = {{"format", "kvscope-gate-mapping"},
                     {"version", 1},
                     {"kind", "kvpop_linear"},
                     {"files", {"x.safetensors"}},
                     {"tensors", {{"w2", "{layer}.w"}}}};
  const auto line = [&](const char* key, const json& value) {
    json bad = good;
    bad[key] = value;
    folder.write("gate_mapping.json", bad.dump());
    return load_error(folder.path());
  };
  CHECK_THAT(line("files", {"../x.safetensors"}),
             Catch::Contains("files: \"../x.safetensors\" leads out of the folder"));
  CHECK_THAT(line("files", {"/etc/passwd"}), Catch::Contains("files: \"/etc/passwd\" leads out of the folder"));
  CHECK_THAT(line("files", json::array()), Catch::Contains("files: missing or empty"));
  CHECK_THAT(line("files", "x"), Catch::Contains("files: no list; expected a list of texts"));
  CHECK_THAT(line("files", {"x.gguf"}), Catch::Contains("x.gguf: neither a .safetensors nor a .pt file"));
  CHECK_THAT(line("files", {"x.safetensors", "x.safetensors"}), Catch::Contains("0.w: also in"));
  CHECK_THAT(line("tensors", json::object()),
             Catch::Contains("tensors.w2: missing; expected its name in the file, of shape [H 2D]"));
  CHECK_THAT(line("tensors", {{"w2", 1}}), Catch::Contains("tensors.w2: 1; expected text"));
  CHECK_THAT(line("tensors", {{"w2", "{layer}.w"}, {"w3", "x"}}),
             Catch::Contains("tensors.w3: no tensor of this kind; expected w2, b2"));
  CHECK_THAT(line("tensors", {{"w2", "{layer}.v"}}),
             Catch::Contains("{layer}.v: tensor missing in every layer; expected w2"));
  CHECK_THAT(line("transpose", {"b2"}), Catch::Contains("transpose: \"b2\"; expected names that stand in \"tensors\""));
  CHECK_THAT(line("kind", "dms"), Catch::Contains("kind: a kind without tensors"));
  CHECK_THAT(line("format", "kvscope-gate"), Catch::Contains("expected kvscope-gate-mapping"));
  CHECK_THAT(line("window", 128), Catch::Contains("a gate of n_layers 1; expected 3"));
}

TEST_CASE("gate: where nothing stands, the error lists what could", "[core][gate]") {
  const TempFolder folder;
  CHECK_FALSE(gate_format(folder.path()));
  CHECK_THAT(load_error(folder.path()), Catch::Contains("no gate; expected gate.json, gate_mapping.json"));
  CHECK_THAT(load_error(folder / "none"), Catch::Contains("no such file or folder"));
  folder.write("config.json", R"({"model_type":"qwen3"})");
  CHECK_FALSE(gate_format(folder.path()));
  CHECK_THAT(load_error(folder.path()), Catch::Contains("no gate"));
  folder.write("config.json", "{");
  CHECK_FALSE(gate_format(folder.path()));
  CHECK_THAT(load_error(folder.path()), Catch::Contains("config.json: line 1"));
  folder.write("notes.txt", "x");
  CHECK_FALSE(gate_format(folder / "notes.txt"));
}
