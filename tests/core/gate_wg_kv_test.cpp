// The gates of WG-KV: files as torch.save writes them, and the same under hostile hands.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/gate/gate_source.h"
#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/random.h"
#include "tests/core/gate_pt_support.h"
#include "tests/core/gate_support.h"
#include "tests/support/expect_error.h"
#include "tests/support/folders.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

const std::filesystem::path kGolden = in_source("tests/core/golden");
const std::string kPrefix = "model.layers.0.self_attn.g_predictors.";

/// The model that the golden files are for.
ModelConfig golden_model() {
  ModelConfig model;
  model.n_layers = 2;
  model.n_heads = 4;
  model.n_kv_heads = 2;
  model.head_dim = 4;
  model.hidden_size = 32;
  return model;
}

/// As make_gate_golden.py: element i of the tensor that is the n-th in the file.
float value(int n, int i) { return static_cast<float>((n * 37 + i * 11) % 255 - 127) / 64; }

/// Layer 0 then layer 1 of the part that is the n-th of its layer.
std::vector<float> values(int n, int count) {
  std::vector<float> out;
  for (int layer = 0; layer < 2; ++layer) {
    for (int i = 0; i < count; ++i) out.push_back(value(layer * 6 + n, i));
  }
  return out;
}

/// The tensors of a .pt file as safetensors, after a change of names.
void convert(
    const std::filesystem::path& from, const std::filesystem::path& to,
    const std::function<std::string(const std::string&)>& rename = [](const auto& name) { return name; }) {
  const GateSource source(from);
  std::vector<std::vector<float>> kept;
  kept.reserve(source.items().size());
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, item] : source.items()) {
    kept.push_back(item.read());
    if (const std::string now = rename(name); !now.empty()) {
      tensors.push_back({now, TensorType::f32, item.shape, std::as_bytes(std::span(kept.back()))});
    }
  }
  write_safetensors(to, tensors);
}

/// The archive with every CRC of its directory 0: what reads it sees the damage behind.
std::string without_checksums(std::string bytes) {
  for (std::size_t i = bytes.find("PK\1\2"); i != bytes.npos; i = bytes.find("PK\1\2", i + 1)) {
    bytes.replace(i + 16, 4, le(0, 4));
  }
  return bytes;
}

}  // namespace

TEST_CASE("gate wg_kv: parameters in float32 and a state_dict in bfloat16 give the same gate", "[core][gate]") {
  const GateFile gate = load_gate(kGolden / "wg_kv_parameters.pt", golden_model());
  CHECK(gate.format == "wg-kv");
  CHECK(gate.config.kind == GateKind::wg_kv);
  CHECK(gate.config.n_hidden == 6);
  CHECK(gate.config.threshold == 0.1);
  CHECK(gate.config.strict);
  CHECK(gate.config.sigmoid);
  CHECK(gate.config.activation == Activation::gelu);
  CHECK(gate.config.window == 256);
  CHECK(gate.dims == GateDims{2, 2, 4, 0});
  CHECK(gate.description == "wg_kv of 2 layers x 2 KV heads, 6 hidden units, kept if score > 0.1");
  CHECK(gate.warnings.empty());
  CHECK(gate.n_parameters() == 2 * (4 + 4 + 96 + 12 + 12 + 2));
  CHECK(gate.tensors.at("pre_norm") == GateTensor{{2, 4}, values(0, 4)});
  CHECK(gate.tensors.at("post_norm") == GateTensor{{2, 4}, values(1, 4)});
  CHECK(gate.tensors.at("w1") == GateTensor{{2, 2, 6, 8}, values(2, 96)});
  CHECK(gate.tensors.at("b1") == GateTensor{{2, 2, 6}, values(3, 12)});
  CHECK(gate.tensors.at("w2") == GateTensor{{2, 2, 6}, values(4, 12)});
  CHECK(gate.tensors.at("b2") == GateTensor{{2, 2}, values(5, 2)});

  const GateFile half = load_gate(kGolden / "wg_kv_state_dict_bf16.pt", golden_model());
  CHECK(half.tensors == gate.tensors);
  CHECK(half.hash == gate.hash);
}

TEST_CASE("gate wg_kv: safetensors of the same names, a folder, and no model at all give the same gate",
          "[core][gate]") {
  const std::string hash = load_gate(kGolden / "wg_kv_parameters.pt", golden_model()).hash;
  const TempFolder folder;
  convert(kGolden / "wg_kv_parameters.pt", folder / "gate-0.04.safetensors");
  CHECK(gate_format(folder / "gate-0.04.safetensors") == "wg-kv");
  CHECK(load_gate(folder / "gate-0.04.safetensors", golden_model()).hash == hash);
  CHECK(gate_format(folder.path()) == "wg-kv");
  const GateFile gate = load_gate(folder.path());
  CHECK(gate.hash == hash);
  CHECK(gate.dims == GateDims{2, 2, 4, 0});
  std::filesystem::copy_file(kGolden / "wg_kv_parameters.pt", folder / "a.pt");
  CHECK_THAT(error_of([&] { load_gate(folder.path()); }),
             Catch::Contains("2 files of weights; expected one, or the path of one: a.pt, ..."));
}

TEST_CASE("gate wg_kv: a gate of another model is refused by what differs", "[core][gate]") {
  const auto line = [](const auto& change) {
    ModelConfig model = golden_model();
    change(model);
    return error_of([&] { load_gate(kGolden / "wg_kv_parameters.pt", model); });
  };
  const std::string file = (kGolden / "wg_kv_parameters.pt").string();
  CHECK(line([](ModelConfig& m) { m.n_layers = 3; }) ==
        file + ": a gate of n_layers 2; expected 3, as the model has; hint: the gate is for another model");
  CHECK_THAT(line([](ModelConfig& m) { m.n_layers = 1; }), Catch::Contains("n_layers 2; expected 1"));
  CHECK(line([](ModelConfig& m) { m.n_kv_heads = 4; }) ==
        file + ": " + kPrefix + "conv2.weight: shape [2, 6, 1]; expected [4, M, 1]; hint: the gate is for another " +
            "model, or of another kind");
  CHECK_THAT(line([](ModelConfig& m) { m.head_dim = 8; }),
             Catch::Contains(kPrefix + "pre_key_norm.weight: shape [4]; expected [8]"));
}

TEST_CASE("gate wg_kv: missing, odd and unknown parts are refused by name", "[core][gate]") {
  const TempFolder folder;
  const auto line = [&](const auto& rename) {
    convert(kGolden / "wg_kv_parameters.pt", folder / "x.safetensors", rename);
    return error_of([&] { load_gate(folder / "x.safetensors", golden_model()); });
  };
  const auto without = [](const std::string& gone) {
    return [gone](const std::string& name) { return name == gone ? "" : name; };
  };
  CHECK_THAT(line(without(kPrefix + "conv1.bias")),
             Catch::Contains("x.safetensors: " + kPrefix + "conv1.bias: tensor missing; expected one of shape [HM]"));
  CHECK_THAT(line(without("model.layers.1.self_attn.g_predictors.conv2.weight")),
             Catch::Contains("n_layers 1; expected 2"));
  CHECK_THAT(line([](const std::string& name) { return name + ".value_norm.weight"; }), Catch::Contains("no tensor"));
  const std::string with_values = line([](const std::string& name) {
    return name == kPrefix + "pre_key_norm.weight" ? kPrefix + "value_norm.weight" : name;
  });
  CHECK_THAT(with_values, Catch::Contains("value_norm.weight: an unknown part of the gate") &&
                              Catch::Contains("hint: gates that read values too are not supported"));
  CHECK_THAT(
      line([](const std::string& name) { return "x." + name; }),
      Catch::Contains("no tensor model.layers.{layer}.self_attn.g_predictors.conv2.weight; expected the gates of "
                      "WG-KV; hint: for other names write gate_mapping.json (docs/reference/gates.md)"));
}

TEST_CASE("gate wg_kv: a value that is not finite is counted and refused", "[core][gate]") {
  const TempFolder folder;
  std::string bytes = read_file(kGolden / "wg_kv_parameters.pt", 1 << 20);
  // The two biases of layer 0's conv2.
  const std::string biases =
      le(std::bit_cast<std::uint32_t>(value(5, 0)), 4) + le(std::bit_cast<std::uint32_t>(value(5, 1)), 4);
  const std::size_t at = bytes.find(biases);
  REQUIRE(at != bytes.npos);
  bytes.replace(at, 4, le(0x7fc00000, 4));
  const auto path = folder.write("x.pt", without_checksums(bytes));
  CHECK(error_of([&] { load_gate(path, golden_model()); }) ==
        path.string() + ": b2: 1 of 4 values are not finite; expected numbers");
}

TEST_CASE("gate wg_kv: 4,000 damaged files load or give one line, and nothing else", "[core][gate]") {
  const std::string good = read_file(kGolden / "wg_kv_parameters.pt", 1 << 20), open = without_checksums(good);
  const TempFolder folder;
  Random random(20260101);
  constexpr int kFiles = 4'000;
  int refused = 0;
  for (int i = 0; i < kFiles; ++i) {
    std::string bytes = i % 2 ? good : open;
    for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
      const std::size_t at = random.below(bytes.size());
      switch (random.below(4)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ 1 << random.below(8));
          break;
        case 1:
          bytes[at] = static_cast<char>(random.next());
          break;
        case 2: {  // an edge value of 1 to 8 bytes
          constexpr std::uint64_t kEdges[] = {0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, ~std::uint64_t{0} >> 1};
          const auto n = static_cast<int>(1 + random.below(8));
          bytes.replace(at, static_cast<std::size_t>(n), le(kEdges[random.below(8)], n));
          break;
        }
        default:
          if (random.below(8) == 0) bytes.resize(at + 1);
      }
    }
    const auto path = folder.write("x.pt", bytes);
    const std::string line = error_of([&] { load_gate(path, golden_model()); });
    if (line == "no error") continue;
    ++refused;
    REQUIRE(line.starts_with(path.string() + ": "));
    REQUIRE(line.find('\n') == line.npos);
  }
  CHECK(refused > kFiles / 2);
  CHECK(refused < kFiles);  // padding may be damaged
}

TEST_CASE("WG-KV gates that stand stacked as x @ w takes them are read, and are the same in our own format") {
  const TempFolder folder;
  const NamedShapes shapes = {{"w1", {3, 2, 8, 5}}, {"b1", {3, 2, 1, 5}}, {"w2", {3, 2, 5, 1}}, {"b2", {3, 2, 1}}};
  const NamedValues values = write_random(folder.path() / "gate.safetensors", shapes);
  CHECK(gate_format(folder.path() / "gate.safetensors") == "wg-kv-stacked");
  CHECK(gate_format(folder.path()) == "wg-kv-stacked");
  const GateFile gate = load_gate(folder.path() / "gate.safetensors", small_model());
  GateConfig expected = default_gate_config(GateKind::wg_kv);
  expected.n_hidden = 5;
  expected.norm_eps = std::ldexp(1.0, -23);
  CHECK(gate.config == expected);
  CHECK(gate.dims == GateDims{.n_layers = 3, .n_kv_heads = 2, .head_dim = 4});
  const GateTensor& w1 = gate.tensors.at("w1");
  REQUIRE(w1.shape == std::vector<std::int64_t>{3, 2, 5, 8});
  for (std::size_t head = 0; head < 6; ++head) {
    for (std::size_t unit = 0; unit < 5; ++unit) {
      for (std::size_t x = 0; x < 8; ++x)
        CHECK(w1.values[(head * 5 + unit) * 8 + x] == values.at("w1")[(head * 8 + x) * 5 + unit]);
    }
  }
  CHECK(gate.tensors.at("b1") == GateTensor{{3, 2, 5}, values.at("b1")});
  CHECK(gate.tensors.at("w2") == GateTensor{{3, 2, 5}, values.at("w2")});
  CHECK(gate.tensors.at("b2") == GateTensor{{3, 2}, values.at("b2")});
  CHECK(gate.tensors.at("pre_norm") == GateTensor{{3, 4}, std::vector<float>(12, 1.0f)});
  CHECK(gate.tensors.at("post_norm") == gate.tensors.at("pre_norm"));
  save_gate(folder.path() / "own", gate);
  CHECK(load_gate(folder.path() / "own", small_model()).hash == gate.hash);

  NamedShapes foreign = shapes;
  foreign["w1"] = {3, 2, 10, 5};
  write_random(folder.path() / "gate.safetensors", foreign);
  CHECK(load_error(folder.path() / "gate.safetensors").find("w1: shape [3, 2, 5, 10]") != std::string::npos);
}
