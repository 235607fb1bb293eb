// Our own format and the scorers that training writes, and the round trip of every kind.
#include <bit>
#include <catch2/catch.hpp>
#include <set>

#include "engine/core/files/gate/gate_shapes.h"
#include "engine/core/files/weights/safetensors.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/support/json_file.h"
#include "tests/core/gate_support.h"
#include "tests/support/expect_error.h"
#include "tests/support/folders.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
using namespace kvscope::test;
using nlohmann::json;

namespace {

/// A gate of the kind with random tensors, as a reader would have made it for small_model().
GateFile random_gate(GateKind kind, int n_hidden, int kernel = 1, const MlstmVariant& variant = {}) {
  GateFile gate{.config = default_gate_config(kind)};
  gate.config.mlstm = variant;
  gate.config.n_hidden = n_hidden;
  gate.config.kernel = kernel;
  if (kernel > 1) gate.config.delay = kernel / 2;
  gate.config.threshold = 0.25;
  gate.config.n_sink = 7;
  gate.config.pool_interval = kind == GateKind::kvpop_mlp ? 32 : 0;
  if (n_hidden == 0) gate.config.activation = Activation::identity;
  gate.description = "made up";
  const GateSizes sizes({3, 2, 4, 10}, n_hidden, kernel);
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

struct KindAndSizes {
  GateKind kind;
  int n_hidden, kernel;
};
/// Every kind, with and without a hidden layer and a convolution where it may have one.
const std::vector<KindAndSizes>& gates_of_every_kind() {
  static const std::vector<KindAndSizes> all = [] {
    std::vector<KindAndSizes> out;
    for (const GateKindInfo& info : gate_kinds()) {
      if (info.hidden != GateKindInfo::Hidden::always) out.push_back({info.kind, 0, 1});
      if (info.hidden != GateKindInfo::Hidden::none) out.push_back({info.kind, 6, 1});
      if (!info.convolved.empty()) out.push_back({info.kind, 6, 5});
    }
    return out;
  }();
  return all;
}

/// What is said of the gate in `folder` when one number of its gate.json is another.
std::string error_with(const TempFolder& folder, json config, const char* key, const json& value) {
  config[key] = value;
  folder.write("gate.json", config.dump());
  return load_error(folder.path());
}

}  // namespace

TEST_CASE("gate: what save_gate writes, load_gate gives back, for every kind", "[core][gate]") {
  const auto [kind, n_hidden, kernel] =
      gates_of_every_kind()[GENERATE(range(std::size_t{0}, gates_of_every_kind().size()))];
  CAPTURE(name_of(kind), n_hidden, kernel);
  const TempFolder folder;
  const GateFile gate = random_gate(kind, n_hidden, kernel);
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
  save_gate(folder / "half", gate, true, GateTensorType::bf16);   // half as long, and each number the nearest
  const GateFile half = load_gate(folder / "half");
  for (const auto& [name, tensor] : gate.tensors) {
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      CHECK(std::abs(half.tensors.at(name).values[i] - tensor.values[i]) <= std::abs(tensor.values[i]) * 0x1p-8f);
    }
  }
  save_gate(folder / "half-again", half, true, GateTensorType::bf16);
  CHECK(load_gate(folder / "half-again").hash == half.hash);
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

TEST_CASE("gate: every kind has a title, a line in docs/reference/gates.md and a policy that reads it",
          "[core][gate]") {
  const std::string page = read_file(test::in_source("docs/reference/gates.md"), 1 << 20);
  const std::string kinds = page.substr(page.find("\n## Kinds"));
  std::set<std::string_view> read;
  for (const PolicyInfo& policy : policy_list()) read.insert(policy.gates.begin(), policy.gates.end());
  for (const GateKindInfo& info : gate_kinds()) {
    CAPTURE(info.name);
    CHECK(scorer_title(info.name) != info.name);
    CHECK(kinds.find("`" + std::string(info.name) + "`") != std::string::npos);
    CHECK((read.contains(info.name) || weightless_gate(info.name)));  // top-k and threshold read any kind
  }
}

TEST_CASE("gate: numbers that are wrong, misspelt or do not fit together are refused", "[core][gate]") {
  const TempFolder folder;
  save_gate(folder.path(), random_gate(GateKind::sp_kv, 6));
  const json good = read_json(folder / "gate.json");
  const auto line = [&](const char* key, const json& value) { return error_with(folder, good, key, value); };
  CHECK_THAT(line("format", "x"), Catch::Contains("gate.json: format: \"x\"; expected kvscope-gate"));
  CHECK_THAT(line("version", 2),
             Catch::Contains("version: 2; expected 1; hint: the file was written by a newer program"));
  CHECK_THAT(line("kind", "magic"), Catch::Contains("kind: unknown kind \"magic\"; expected kvpop_mlstm, kvpop_mlp"));
  CHECK_THAT(line("treshold", 0.5), Catch::Contains("treshold: an unknown key"));
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

TEST_CASE("gate: a convolution is as wide as the kernel says, and the score comes half of that later", "[core][gate]") {
  const TempFolder folder;
  save_gate(folder.path(), random_gate(GateKind::sp_kv, 6, 5));
  const json good = read_json(folder / "gate.json");
  const auto line = [&](const char* key, const json& value) { return error_with(folder, good, key, value); };
  CHECK(good["delay"] == 2);
  CHECK_THAT(line("kernel", 7), Catch::Contains("gate.json: delay: 2; expected 3, what a kernel of 7 sees after"));
  CHECK_THAT(line("kernel", 4), Catch::Contains("gate.json: kernel: 4; expected an odd number"));
  CHECK_THAT(line("kernel", 0), Catch::Contains("kernel: 0; expected an integer from 1"));
  CHECK_THAT(line("delay", 0), Catch::Contains("delay: 0; expected 2, what a kernel of 5 sees after a token"));
  CHECK_THAT(line("window", 1), Catch::Contains("delay: a delay of 2 tokens in a window of 1"));
  CHECK_THAT(line("n_hidden", 0), Catch::Contains("kernel: 5 in a predictor without a hidden layer"));
  CHECK_THAT(line("kind", "kvzap_mlp"), Catch::Contains("kernel: 5; expected 1: kvzap_mlp has no convolution"));
  json brief = good;
  brief.erase("delay");  // it follows from the kernel
  folder.write("gate.json", brief.dump());
  CHECK(load_gate(folder.path(), small_model()).config.delay == 2);
  CHECK_THAT(load_gate(folder.path()).description, Catch::Contains("made up"));
  brief["description"] = "";
  folder.write("gate.json", brief.dump());
  CHECK(load_gate(folder.path()).description ==
        "sp_kv of 3 layers x 2 KV heads, 6 hidden units, kernel of 5 tokens, delay 2, kept if score >= 0.25");

  folder.write("gate.json", good.dump());
  NamedShapes shapes = {{"w1", {3, 6, 10}}, {"b1", {3, 6}}, {"conv", {3, 6, 3}}, {"w2", {3, 2, 6}}, {"b2", {3, 2}}};
  write_random(folder / "gate.safetensors", shapes);
  CHECK_THAT(load_error(folder.path()), Catch::Contains("conv: shape [3, 6, 3]; expected [3, 6, 5]"));
  shapes["conv"] = {3, 6, 6, 5};  // one filter for each pair of units
  write_random(folder / "gate.safetensors", shapes);
  CHECK_THAT(load_error(folder.path()), Catch::Contains("conv: shape [3, 6, 6, 5]; expected [3, 6, 5]"));
  shapes.erase("conv");
  write_random(folder / "gate.safetensors", shapes);
  CHECK_THAT(load_error(folder.path()), Catch::Contains("conv: tensor missing; expected one of shape [L M K]"));
  // Without a kernel there is no such tensor, and no such key: gates of before have the hash that they had.
  save_gate(folder / "plain", random_gate(GateKind::sp_kv, 6));
  CHECK_FALSE(read_json(folder / "plain/gate.json").contains("kernel"));
}

TEST_CASE("gate: the gates that come with KVScope have the hashes that they had", "[core][gate]") {
  const std::filesystem::path gates = in_source("samples/gates");
  CHECK(load_gate(gates / "smollm2-135m/sp-kv-0.05").hash == "fae05ec6f17cd019");
  CHECK(load_gate(gates / "kvscope-tiny/sp-kv-0.02").hash == "0c9aaa79bbb49286");
}

TEST_CASE("gate: an mLSTM's score has no sigmoid, and a gate that wants one is refused", "[core][gate]") {
  const TempFolder folder;
  GateFile gate = random_gate(GateKind::kvpop_mlstm, 0);
  gate.config.sigmoid = true;
  save_gate(folder.path(), gate);
  CHECK_THAT(load_error(folder.path()), Catch::Contains("gate.json: sigmoid: true; expected false"));
}

TEST_CASE("gate: the mLSTM's variants have their own tensors and keys, and the published one has neither",
          "[core][gate]") {
  const TempFolder folder;
  const GateFile published = random_gate(GateKind::kvpop_mlstm, 0);
  save_gate(folder / "published", published);
  const json plain = read_json(folder / "published/gate.json");
  for (const char* key : {"feature_map", "head_norm", "cached_values", "skip"}) CHECK_FALSE(plain.contains(key));

  struct Case {
    MlstmVariant variant;
    const char *key, *tensor;
    std::vector<std::int64_t> shape;  // empty: no such tensor
    const char* text;
  };
  const Case& c =
      GENERATE(Case{{.feature_map = FeatureMap::softmax}, "feature_map", "wq", {3, 2, 8, 4}, ", softmax feature map,"},
               Case{{.head_norm = true}, "head_norm", "norm", {3, 2, 4}, ", head-wise norm,"},
               Case{{.cached_values = true}, "cached_values", "wv", {}, ", cached values,"},
               Case{{.skip = false}, "skip", "out", {3, 2, 4}, ", no skip connection,"});
  CAPTURE(c.key);
  GateFile gate = random_gate(GateKind::kvpop_mlstm, 0, 1, c.variant);
  gate.description.clear();
  save_gate(folder / "gate", gate);
  const GateFile back = load_gate(folder / "gate", small_model());
  CHECK(back.config == gate.config);
  CHECK(back.tensors == gate.tensors);
  CHECK(back.hash != load_gate(folder / "published").hash);
  CHECK_THAT(back.description, Catch::Contains(c.text));
  const auto found = back.tensors.find(c.tensor);
  REQUIRE((found == back.tensors.end()) == c.shape.empty());
  if (found != back.tensors.end()) CHECK(found->second.shape == c.shape);

  json other = read_json(folder / "gate/gate.json");  // the tensors of one, the key of the other
  other.erase(c.key);
  folder.write("gate/gate.json", other.dump());
  CHECK_THAT(load_error(folder / "gate"), Catch::Contains("gate.safetensors: " + std::string(c.tensor)));
  const TempFolder sp_kv;
  save_gate(sp_kv.path(), random_gate(GateKind::sp_kv, 6));
  const json good = read_json(sp_kv / "gate.json");
  const json value = c.tensor == std::string("wq") ? json("softmax") : json(c.tensor != std::string("out"));
  CHECK_THAT(error_with(sp_kv, good, c.key, value),
             Catch::Contains(std::string(c.key) + ": a setting of kvpop_mlstm; expected none of these for sp_kv"));
}

TEST_CASE("gate: an unknown feature map, and a norm of the wrong shape, are refused", "[core][gate]") {
  const TempFolder folder;
  GateFile gate = random_gate(GateKind::kvpop_mlstm, 0, 1, {.head_norm = true});
  save_gate(folder.path(), gate);
  const json good = read_json(folder / "gate.json");
  CHECK_THAT(error_with(folder, good, "feature_map", "relu"),
             Catch::Contains("gate.json: feature_map: \"relu\"; expected hedgehog or softmax"));
  CHECK_THAT(error_with(folder, good, "head_norm", 1), Catch::Contains("head_norm: 1; expected true or false"));
  folder.write("gate.json", good.dump());
  NamedShapes shapes;
  for (const auto& [name, tensor] : gate.tensors) shapes[name] = tensor.shape;
  shapes["norm"] = {3, 4};
  write_random(folder / "gate.safetensors", shapes);
  CHECK_THAT(load_error(folder.path()), Catch::Contains("gate.safetensors: norm: shape [3, 4]; expected [3, 2, 4]"));
}

TEST_CASE("gate: a KVpop scorer may have each head's own decay", "[core][gate]") {
  const TempFolder folder;
  const GateKind kind = GENERATE(GateKind::kvpop_mlstm, GateKind::kvpop_mlp, GateKind::kvpop_linear);
  GateFile gate = random_gate(kind, kind == GateKind::kvpop_mlp ? 5 : 0);
  save_gate(folder / "without", gate);
  gate.tensors["log_gamma"] = {{3, 2}, {-0.1f, 0, -0.25f, -1e-6f, 0, -2}};
  save_gate(folder / "with", gate);
  const GateFile back = load_gate(folder / "with", small_model());
  CHECK(back.tensors == gate.tensors);
  CHECK(back.hash != load_gate(folder / "without").hash);
  gate.tensors["log_gamma"].values[3] = 1e-6f;
  save_gate(folder / "growing", gate);
  CHECK_THAT(load_error(folder / "growing"), Catch::Contains("log_gamma: 1e-06; expected 0 or less"));
  GateFile other = random_gate(GateKind::sp_kv, 6);
  other.tensors["log_gamma"] = back.tensors.at("log_gamma");
  CHECK_THROWS_AS(save_gate(folder / "other", other), Error);  // of another method
}

TEST_CASE("gate: the scorer of the sample model is a gate, and keeps its numbers", "[core][gate]") {
  const std::filesystem::path sample = in_source("samples/models/kvscope-tiny");
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
  std::vector<std::uint16_t> out(6 * 4 * 192);  // bfloat16 is the upper half of a float
  file.read(file.tensors().at("out"), std::as_writable_bytes(std::span(out)));
  for (std::size_t i = 0; i < out.size(); ++i)
    CHECK(gate.tensors.at("out").values[i] == std::bit_cast<float>(static_cast<std::uint32_t>(out[i]) << 16));
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
             Catch::Contains("window: 32, which differs from the delay; expected 64"));
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
