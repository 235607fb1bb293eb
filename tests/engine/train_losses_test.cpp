// What the trainer computes against plain Python of the papers' formulas: make_golden_losses.py made the numbers.

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/files/weights/model_family.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/train/boundary_loss.h"
#include "engine/jobs/train/future_target.h"
#include "engine/jobs/train/gate_method.h"
#include "engine/jobs/train/gate_module.h"
#include "engine/jobs/train/scorer_module.h"
#include "tests/support/folders.h"

using namespace kvscope;
using namespace kvscope::engine;

namespace {

const nlohmann::json& golden() {
  static const nlohmann::json numbers =
      read_json(test::in_source("tests/engine/golden/losses.json"), {.max_bytes = 1u << 20});
  return numbers;
}

/// The script's tensor of this seed, float32.
at::Tensor tensor(int seed, std::vector<std::int64_t> shape, double scale = 1) {
  const at::Tensor values = at::empty(shape, at::kDouble);
  double* data = values.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    data[i] = scale * std::sin(0.7 * static_cast<double>(i + 1) + 1.3 * seed);
  }
  return values.to(at::kFloat);
}

void collect(const nlohmann::json& json, std::vector<double>& out) {
  if (!json.is_array()) return out.push_back(json.get<double>());
  for (const auto& part : json) collect(part, out);
}

/// Element by element; 1e-5 of the largest is some tens of roundings of float32.
void require_close(const at::Tensor& found, const nlohmann::json& expected, double tolerance = 1e-5) {
  std::vector<double> numbers;
  collect(expected, numbers);
  const at::Tensor flat = found.detach().to(at::kDouble).flatten();
  REQUIRE(flat.numel() == static_cast<std::int64_t>(numbers.size()));
  double largest = 0;
  for (const double number : numbers) largest = std::max(largest, std::abs(number));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CAPTURE(i);
    CHECK(flat[static_cast<std::int64_t>(i)].item<double>() == Approx(numbers[i]).margin(tolerance * largest));
  }
}

void set(FlatParameters& parameters, const std::string& name, const at::Tensor& values) {
  parameters.master(name).copy_(values.view_as(parameters.master(name)));
}

ModelConfig model_of(int hidden_size, int head_dim) {
  ModelConfig model;
  model.vocab_size = 7;
  model.hidden_size = hidden_size;
  model.intermediate_size = 8;
  model.n_layers = 1;
  model.n_heads = model.n_kv_heads = 2;
  model.head_dim = head_dim;
  model.max_positions = 16;
  model.tie_word_embeddings = true;
  model.set_family(*find_family("LlamaForCausalLM"));
  return model;
}

}  // namespace

TEST_CASE("the future-attention target is the papers' formula, by the mean, sum, root mean square and maximum") {
  const auto [name, kind] = GENERATE(table<const char*, FutureMass>(
      {{"mean", FutureMass::mean}, {"sum", FutureMass::sum}, {"rms", FutureMass::rms}, {"max", FutureMass::max}}));
  const auto chunk = GENERATE(5, 256);
  const auto found =
      teacher_attention(tensor(1, {1, 12, 4, 4}, 2), tensor(2, {1, 12, 2, 4}, 2), tensor(2, {1, 12, 2, 4}),
                        /*window=*/3, kind, /*scale=*/0.5, /*weight=*/{}, /*lifetimes=*/{}, chunk);
  CAPTURE(name, chunk);
  require_close(found.target, golden()["future_target"][name]);
}

TEST_CASE("the boundary loss is equation 7 of KVpop, weighed by equations 23 and 24") {
  const auto [name, margin] =
      GENERATE(table<const char*, MarginWeight>({{"none", MarginWeight::none},
                                                 {"sigmoid", MarginWeight::sigmoid},
                                                 {"proportional", MarginWeight::proportional}}));
  ScorerOptions options;
  options.n_sink = 1;
  options.window = 3;
  options.margin = margin;
  options.margin_temperature = 0.8;
  const BoundaryPairs pairs = boundary_pairs(tensor(3, {2, 2, 16}, 3), {10, 12, 15, 9}, /*top_k=*/3, options);
  const at::Tensor score = tensor(4, {2, 2, 16});
  const at::Tensor loss = boundary_loss(score.gather(2, pairs.newcomer), score.gather(2, pairs.boundary), pairs, 0.7);
  const auto& expected = golden()["boundary_loss"][name];
  CAPTURE(name);
  const at::Tensor differs = pairs.newcomer != pairs.boundary;
  CHECK(differs.sum().item<int>() == expected["contests"]);
  CHECK(differs.logical_and(pairs.label > 0).sum().item<int>() == expected["kept"]);
  CHECK(loss.item<double>() == Approx(expected["loss"].get<double>()).epsilon(1e-5));
}

TEST_CASE("the delayed mLSTM's quadratic form gives the scores of its recurrence") {
  constexpr int T = 10, D = 4;
  ModelConfig model = model_of(8, D);
  model.n_kv_heads = 1;
  ScorerOptions options;
  options.delay = GENERATE(3, 0);
  options.soft_cap = GENERATE(0.0, 0.8);
  ScorerModule scorer(options, model, at::kCPU);
  int seed = 7;
  for (const char* name : {"wq", "wk", "wv", "gi", "gf", "out", "bi", "bf", "b"}) {
    const at::Tensor& master = scorer.parameters().master(name);
    set(scorer.parameters(), name, tensor(seed++, master.sizes().vec()));
  }
  scorer.parameters().publish();
  const at::Tensor scores = scorer.scores(0, tensor(5, {1, T, 1, D}), tensor(6, {1, T, 1, D}));
  const char* cap = options.soft_cap == 0 ? "" : " capped";
  require_close(scores, golden()["mlstm_scores"][(options.delay == 0 ? "immediate" : "delayed") + std::string(cap)]);
}

TEST_CASE("the variants of the mLSTM have the scores of their recurrences") {
  constexpr int T = 10, D = 4;
  const auto [name, variant] = GENERATE(table<const char*, MlstmVariant>(
      {{"softmax", {.feature_map = FeatureMap::softmax}},
       {"norm", {.head_norm = true}},
       {"cached", {.cached_values = true}},
       {"no skip", {.skip = false}},
       {"all", {.feature_map = FeatureMap::softmax, .head_norm = true, .cached_values = true, .skip = false}}}));
  ModelConfig model = model_of(8, D);
  model.n_kv_heads = 1;
  ScorerOptions options;
  options.delay = 3;
  options.mlstm = variant;
  ScorerModule scorer(options, model, at::kCPU);
  const std::map<std::string, int> seeds = {{"wq", 7},   {"wk", 8},  {"wv", 9},  {"gi", 10}, {"gf", 11},
                                            {"out", 12}, {"bi", 13}, {"bf", 14}, {"b", 15},  {"norm", 16}};
  for (const auto& spec : scorer.parameters().specs())
    set(scorer.parameters(), spec.name, tensor(seeds.at(spec.name), spec.shape));
  scorer.parameters().publish();
  CAPTURE(name);
  require_close(scorer.scores(0, tensor(5, {1, T, 1, D}), tensor(6, {1, T, 1, D})), golden()["mlstm_scores"][name]);
}

TEST_CASE("KVpop's MLP and linear scorers are their formulas, and rank by a decay that is equation 21") {
  constexpr int T = 6, D = 4;
  const auto [name, kind] =
      GENERATE(table<const char*, GateKind>({{"mlp", GateKind::kvpop_mlp}, {"linear", GateKind::kvpop_linear}}));
  ModelConfig model = model_of(8, D);
  model.n_kv_heads = 1;
  ScorerOptions options;
  options.kind = kind;
  options.hidden = 3;
  options.decay = DecayRange{.least = 0.8, .most = 0.99};
  ScorerModule scorer(options, model, at::kCPU);
  const std::map<std::string, int> seeds = {{"w1", 30}, {"b1", 31}, {"w2", 32}, {"b2", 33}, {"alpha", 34}};
  for (const auto& spec : scorer.parameters().specs())
    set(scorer.parameters(), spec.name, tensor(seeds.at(spec.name), spec.shape));
  scorer.parameters().publish();
  const at::Tensor scores = scorer.scores(0, tensor(5, {1, T, 1, D}), tensor(6, {1, T, 1, D}));
  const at::Tensor tokens = at::arange(T, at::kLong).view({1, 1, T});
  CAPTURE(name);
  require_close(scores, golden()["kvpop_scores"][name]["scores"]);
  require_close(scorer.priorities(0, scores, tokens), golden()["kvpop_scores"][name]["priorities"]);
}

TEST_CASE("a target's weight is the length of the value, or of what it becomes in each query head's output") {
  constexpr int T = 12, D = 4, H = 5;
  const at::Tensor v = tensor(35, {1, T, 2, D}), projection = tensor(36, {H, 4 * D});
  const auto [name, kind] =
      GENERATE(table<const char*, TargetWeight>({{"value", TargetWeight::value}, {"output", TargetWeight::output}}));
  const at::Tensor weight = value_weight(v, kind, projection);
  CAPTURE(name);
  require_close(weight, golden()["target_weight"][name]["weight"]);
  const auto found = teacher_attention(tensor(1, {1, T, 4, D}, 2), tensor(2, {1, T, 2, D}, 2), v, /*window=*/3,
                                       FutureMass::rms, /*scale=*/0.5, weight, /*lifetimes=*/{}, /*chunk=*/5);
  require_close(found.target, golden()["target_weight"][name]["rms"]);
}

TEST_CASE("the networks of WG-KV, SP-KV and DMS are their papers' formulas") {
  const auto name = GENERATE(as<std::string>{}, "wg-kv", "sp-kv", "sp-kv bidirectional", "dms");
  constexpr int T = 5, D = 4, F = 6;
  const GateMethod& rule = find_gate_method(name.substr(0, name.find(' ')), "test");
  const int kernel = name.find(' ') == name.npos ? 1 : 3;
  GateModule gates(*rule.kind, /*n_hidden=*/3, model_of(F, D), at::kCPU, kernel);
  const std::map<std::string, int> seeds = {{"w1", 18},       {"b1", 19},        {"w2", 20},   {"b2", 21},
                                            {"pre_norm", 22}, {"post_norm", 23}, {"norm", 22}, {"conv", 29}};
  for (const auto& spec : gates.parameters().specs()) {
    set(gates.parameters(), spec.name, tensor(seeds.at(spec.name), spec.shape));
  }
  gates.parameters().publish();
  const at::Tensor x = tensor(24, {1, T, F});
  const at::Tensor output =
      gates.output(gates.layers()[0],
                   {.input = x, .k_unrotated = tensor(16, {1, T, 2, D}), .k = tensor(17, {1, T, 2, D}), .v = x}, x);
  CAPTURE(name);
  require_close(output, golden()["outputs"][name]);
}

TEST_CASE("the losses of WG-KV, SP-KV, DMS and StreamingLLM+ are their papers' formulas") {
  const auto method = GENERATE(as<std::string>{}, "wg-kv", "sp-kv", "dms", "streaming");
  constexpr int B = 2, T = 5, F = 6, V = 7;
  DecoderModule base(model_of(F, 4), T, at::kCPU, at::kFloat, /*trained=*/false);
  const std::string embedding = "model.embed_tokens.weight";
  set(base.parameters(), embedding, tensor(27, {V, F}, 2));
  base.parameters().publish();
  const at::Tensor next = at::remainder(at::arange(B * T, at::kLong) * 3 + 1, V).view({B, T});
  const at::Tensor student = tensor(25, {B, T, F}).set_requires_grad(true), teacher = tensor(26, {B, T, F}),
                   gates = 0.5 + 0.4 * tensor(28, {2, B, 2, T});
  const auto [loss, kept] = find_gate_method(method, "test")
                                .loss({.base = base,
                                       .next = next,
                                       .counted = at::arange(B * T, at::kLong),
                                       .share = at::full({B * T}, 1.0 / (B * T)),
                                       .student = student,
                                       .teacher = teacher,
                                       .gates = gates},
                                      {.weight = 0.9, .progress = 0.9});
  CAPTURE(method);
  require_close(at::stack({loss, kept}), golden()["losses"][method]);
}
