// gate_mapping.json: gates under any names.
#include <catch2/catch.hpp>

#include "tests/core/gate_support.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::test;
using nlohmann::json;

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
  NamedShapes up;
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
  CHECK(gate.config.activation == Activation::silu);
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

TEST_CASE("gate: a mapping reads SP-KV's convolution, one filter a unit", "[core][gate]") {
  const TempFolder folder;
  json mapping = {{"format", "kvscope-gate-mapping"},
                  {"version", 1},
                  {"kind", "sp_kv"},
                  {"kernel", 5},
                  {"files", {"x.safetensors"}},
                  {"tensors", {{"w1", "{layer}.up"}, {"conv", "{layer}.look"}, {"w2", "{layer}.down"}}}};
  folder.write("gate_mapping.json", mapping.dump());
  NamedShapes shapes;
  for (int i = 0; i < 3; ++i) {
    const std::string layer = std::to_string(i);
    shapes.insert({{layer + ".up", {6, 10}}, {layer + ".look", {6, 5}}, {layer + ".down", {2, 6}}});
  }
  const auto values = write_random(folder / "x.safetensors", shapes);
  const GateFile gate = load_gate(folder.path(), small_model());
  CHECK(gate.config.kernel == 5);
  CHECK(gate.config.delay == 2);
  CHECK(gate.tensors.at("conv") == GateTensor{{3, 6, 5}, stacked(values, "", ".look")});
  mapping["tensors"].erase("w1");
  folder.write("gate_mapping.json", mapping.dump());
  CHECK_THAT(load_error(folder.path()), Catch::Contains("kernel: 5 in a predictor without a hidden layer"));
}

TEST_CASE("gate: a mapping of an mLSTM has its head-wise norm and softmax feature map as keys", "[core][gate]") {
  const TempFolder folder;
  const NamedShapes of_layer = {{"q", {2, 8, 4}},    {"k", {2, 8, 4}},  {"v", {2, 8, 4}},   {"take", {2, 8, 1}},
                                {"drop", {2, 8, 1}}, {"read", {2, 12}}, {"outnorm", {2, 4}}};
  json mapping = {{"format", "kvscope-gate-mapping"},
                  {"version", 1},
                  {"kind", "kvpop_mlstm"},
                  {"head_norm", true},
                  {"feature_map", "softmax"},
                  {"files", {"x.safetensors"}},
                  {"tensors",
                   {{"wq", "{layer}.q"},
                    {"wk", "{layer}.k"},
                    {"wv", "{layer}.v"},
                    {"gi", "{layer}.take"},
                    {"gf", "{layer}.drop"},
                    {"out", "{layer}.read"},
                    {"norm", "{layer}.outnorm"}}}};
  NamedShapes shapes;
  for (int i = 0; i < 3; ++i) {
    for (const auto& [name, shape] : of_layer) shapes[std::to_string(i) + "." + name] = shape;
  }
  folder.write("gate_mapping.json", mapping.dump());
  const NamedValues values = write_random(folder / "x.safetensors", shapes);
  const GateFile gate = load_gate(folder.path(), small_model());
  CHECK(gate.config.mlstm == MlstmVariant{.feature_map = FeatureMap::softmax, .head_norm = true});
  CHECK(gate.tensors.at("norm") == GateTensor{{3, 2, 4}, stacked(values, "", ".outnorm")});
  CHECK(gate.tensors.at("wq") == GateTensor{{3, 2, 8, 4}, stacked(values, "", ".q")});
  CHECK(gate.tensors.at("bf") == GateTensor{{3, 2, 1}, std::vector<float>(6, 0.0f)});

  mapping.erase("head_norm");
  folder.write("gate_mapping.json", mapping.dump());
  CHECK_THAT(load_error(folder.path()), Catch::Contains("tensors.norm: no tensor of this kind"));
  mapping["head_norm"] = true;
  mapping.erase("feature_map");
  folder.write("gate_mapping.json", mapping.dump());
  CHECK_THAT(load_error(folder.path()), Catch::Contains("x.safetensors: 0.q: shape [2, 8, 4]; expected [2, 8, 2]"));
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
             Catch::Contains("files: \"../x.safetensors\" points outside the folder"));
  CHECK_THAT(line("files", {"/etc/passwd"}), Catch::Contains("files: \"/etc/passwd\" points outside the folder"));
  CHECK_THAT(line("files", json::array()), Catch::Contains("files: missing or empty"));
  CHECK_THAT(line("files", "x"), Catch::Contains("files: not a list; expected a list of texts"));
  CHECK_THAT(line("files", {"x.gguf"}), Catch::Contains("x.gguf: neither a .safetensors nor a .pt file"));
  CHECK_THAT(line("files", {"x.safetensors", "x.safetensors"}), Catch::Contains("0.w: also in"));
  CHECK_THAT(line("tensors", json::object()),
             Catch::Contains("tensors.w2: missing; expected its name in the file, of shape [H 2D]"));
  CHECK_THAT(line("tensors", {{"w2", 1}}), Catch::Contains("tensors.w2: 1; expected text"));
  CHECK_THAT(line("tensors", {{"w2", "{layer}.w"}, {"w3", "x"}}),
             Catch::Contains("tensors.w3: no tensor of this kind; expected w2, b2"));
  CHECK_THAT(line("tensors", {{"w2", "{layer}.v"}}),
             Catch::Contains("{layer}.v: tensor missing in every layer; expected w2"));
  CHECK_THAT(line("transpose", {"b2"}), Catch::Contains("transpose: \"b2\"; expected names listed in \"tensors\""));
  CHECK_THAT(line("kind", "dms"), Catch::Contains("kind: a kind without tensors"));
  CHECK_THAT(line("format", "kvscope-gate"), Catch::Contains("expected kvscope-gate-mapping"));
  CHECK_THAT(line("window", 128), Catch::Contains("a gate of n_layers 1; expected 3"));
}
