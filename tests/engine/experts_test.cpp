// Models whose layers have experts: in a prompt and in decode steps, alone and in a batch, from both layouts of files.

#include <cmath>
#include <map>

#include "engine/core/support/error.h"
#include "engine/decode/generation_batch.h"
#include "engine/jobs/bench/floors.h"
#include "engine/jobs/train/decoder_module.h"
#include "engine/model/checkpoint.h"
#include "engine/model/expert_mlp.h"
#include "kernels/device.h"
#include "tests/engine/gated_model.h"
#include "tests/engine/policy_cases.h"
#include "tests/support/expect_error.h"
#include "tests/support/model_folder.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

constexpr int kTokens = 140, kPrompt = 100;

/// small_config() with experts in layer 1 alone.
ModelConfig mixture_config() {
  ModelConfig config = test::small_config();
  config.set_family(*find_family("Qwen3MoeForCausalLM"));
  config.layers[0].mlp = MlpKind::gated;
  config.layers[1].experts = {.n = 12, .per_token = 3, .intermediate = 40, .normalised = true};
  return config;
}

engine::LoadedModel mixture(const char* device = "cpu", const char* dtype = "float32") {
  return engine::LoadedModel::random(mixture_config(), 3, {device, dtype});
}

const engine::LayerWeights& layer_of(const engine::LoadedModel& model) { return model.weights().layers[1]; }

/// The definition, one token and one expert after the other in double: y = sum of w_e MLP_e(n).
at::Tensor by_loops(const at::Tensor& n, const engine::LayerWeights& weights, const ExpertConfig& experts) {
  const at::Tensor x = n.to(at::kDouble), p = x.matmul(weights.router.to(at::kDouble).t()).softmax(-1);
  at::Tensor out = at::zeros_like(x);
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    const auto [value, index] = p[t].topk(experts.per_token);
    for (int i = 0; i < experts.per_token; ++i) {
      const std::int64_t e = index[i].item<std::int64_t>();
      const at::Tensor gate_up = weights.gate_up[e].to(at::kDouble).matmul(x[t]);
      const at::Tensor gate = gate_up.narrow(0, 0, experts.intermediate);
      const at::Tensor a = at::silu(gate) * gate_up.narrow(0, experts.intermediate, experts.intermediate);
      const at::Tensor w = experts.normalised ? value[i] / value.sum() : value[i];
      out[t].add_(w * weights.down[e].to(at::kDouble).matmul(a));
    }
  }
  return out;
}

TEST_CASE("a prompt's experts are the sum that defines them", "[engine][experts]") {
  const engine::LoadedModel model = mixture();
  ExpertConfig experts = model.config().layers[1].experts;
  experts.normalised = GENERATE(true, false);
  experts.per_token = GENERATE(1, 3, 12);
  const int n_tokens = GENERATE(1, 70, 300);
  const at::Tensor n = at::randn({n_tokens, 128}, at::kFloat);
  const at::Tensor expected = by_loops(n, layer_of(model), experts);
  const at::Tensor found = engine::expert_mlp(n, layer_of(model), experts);
  CHECK((found - expected).abs().max().item<double>() < 1e-4 * expected.abs().max().item<double>());
  CHECK(at::equal(engine::expert_mlp(n, layer_of(model), experts), found));
}

TEST_CASE("of experts with equal logits a token goes through the first", "[engine][experts]") {
  const at::Tensor n = at::ones({2, 128}), router = at::ones({12, 128});
  router[5].mul_(2);
  const engine::ExpertChoice choice = engine::choose_experts(n, router, mixture_config().layers[1].experts);
  CHECK(at::equal(choice.expert, at::tensor({0, 1, 5, 0, 1, 5}, at::kInt).view({2, 3})));
  CHECK(choice.weight.sum(1).sub(1).abs().max().item<float>() < 1e-6);
}

TEST_CASE("a model with experts gives the same logits in a prompt and token by token", "[engine][experts]") {
  const engine::LoadedModel model = mixture();
  const auto ids = test::some_ids(kTokens);
  const auto logits = [&](int prompt_len) { return test::feed(model, ids, prompt_len, "full").logits; };
  const std::vector<float> at_once = logits(kTokens);
  CHECK(test::relative_difference(logits(1), at_once) < 1e-4);
  CHECK(test::relative_difference(logits(kPrompt), at_once) < 1e-4);
}

TEST_CASE("everything that a layer's experts are configured with has its effect", "[engine][experts]") {
  const auto ids = test::some_ids(kTokens);
  const auto logits = [&](const ModelConfig& config, int prompt_len) {
    return test::feed(engine::LoadedModel::random(config, 3, {"cpu", "float32"}), ids, prompt_len, "full").logits;
  };
  const std::vector<float> expected = logits(mixture_config(), 1);
  void (*const changes[])(LayerConfig&) = {
      [](LayerConfig& layer) { layer.experts.n = 11; },
      [](LayerConfig& layer) { layer.experts.per_token = 2; },
      [](LayerConfig& layer) { layer.experts.intermediate = 24; },
      [](LayerConfig& layer) { layer.experts.normalised = false; },
      [](LayerConfig& layer) { layer.mlp = MlpKind::gated; },
  };
  for (const auto& change : changes) {
    CAPTURE(&change - changes);
    ModelConfig other = mixture_config();
    change(other.layers[1]);
    CHECK(test::relative_difference(logits(other, 1), expected) > 1e-4);
    CHECK(test::relative_difference(logits(other, kTokens), logits(other, 1)) < 1e-4);
  }
}

/// Logits after each step of each of n runs, all together.
void check_batch(const engine::LoadedModel& model, int n) {
  const auto request = [](int i) { return test::request(test::some_ids(20 + 13 * i, 512, 7 + i), "full", 12); };
  std::vector<engine::Generation> runs;
  for (int i = 0; i < n; ++i) runs.emplace_back(model, request(i));
  engine::GenerationBatch batch(model, n);
  for (engine::Generation& run : runs) {
    run.prefill();
    batch.join(run);
  }
  for (int step = 0; step < 12; ++step) {
    for (const auto& one : batch.step()) REQUIRE_FALSE(one.error);
  }
  for (int i = 0; i < n; ++i) {
    CAPTURE(n, i);
    engine::Generation alone(model, request(i));
    alone.prefill();
    while (!alone.finished()) alone.step();
    CHECK(alone.ids() == runs[static_cast<std::size_t>(i)].ids());
    const auto found = runs[static_cast<std::size_t>(i)].logits(), expected = alone.logits();
    CHECK(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
  }
}

TEST_CASE("a run of a model with experts has the same bits alone and in a batch", "[engine][experts][batch]") {
  const char* dtype = GENERATE("float32", "bfloat16");
  check_batch(mixture("cpu", dtype), GENERATE(2, 9));
}

TEST_CASE("on CUDA a run of a model with experts has the same bits alone and in a batch",
          "[engine][experts][batch][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const char* dtype = GENERATE("float32", "bfloat16");
  check_batch(mixture("cuda", dtype), GENERATE(2, 9, 32));
}

TEST_CASE("under every policy a model with experts runs, and one so generous that nothing leaves is the full cache",
          "[engine][experts][policy]") {
  static const engine::LoadedModel model =
      test::gated_model(test::gates_of_every_kind(), "cpu", "float32", mixture_config());
  const auto ids = test::some_ids(kTokens, 512, 44);
  const test::PolicyCase& one = test::policy_cases()[GENERATE(range(std::size_t{0}, test::policy_cases().size()))];
  CAPTURE(one.policy, one.dense);
  RunRequest request = test::request({ids.begin(), ids.begin() + kPrompt}, one.policy, kTokens - kPrompt);
  request.answer_ids.emplace(ids.begin() + kPrompt, ids.end());
  request.oracle = true;
  const RunRecord record = engine::record_run(model, request);
  CHECK(record.status == RunStatus::complete);
  const auto full = test::feed(model, ids, kPrompt, "full").logits;
  CHECK(test::relative_difference(test::feed(model, ids, kPrompt, one.dense).logits, full) < 1e-4);
}

/// A folder with a model with experts, in the layout of published files.
void write_mixture(const test::TempFolder& folder) {
  test::write_model_folder(folder.path(), test::small_model_config("Qwen3MoeForCausalLM"), 7);
}

/// The same with one tensor of all experts, as transformers 5 writes them; without `left_out`.
void stack_experts(const test::TempFolder& folder, const std::string& left_out = "") {
  const ModelConfig config = ModelConfig::load(folder.path());
  std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<float>>> tensors;
  for (const auto& [name, shape] : test::tensor_shapes(config)) {
    std::vector<float> values = test::formula_tensor(name, shape, 7);
    const std::size_t at = name.find(".experts.");
    if (at == name.npos) {
      tensors[name] = {shape, std::move(values)};
      continue;
    }
    // tensor_shapes() lists gate, up and down of expert 0, then of expert 1 ...
    const bool is_down = name.ends_with("down_proj.weight");
    auto& [all_shape, all] = tensors[name.substr(0, at + 9) + (is_down ? "down_proj" : "gate_up_proj")];
    all_shape = {3, is_down ? shape[0] : 2 * shape[0], shape[1]};
    all.insert(all.end(), values.begin(), values.end());
  }
  tensors.erase(left_out);
  std::vector<TensorToWrite> out;
  for (const auto& [name, tensor] : tensors)
    out.push_back({name, TensorType::f32, tensor.first, std::as_bytes(std::span(tensor.second))});
  write_safetensors(folder / "model.safetensors", out);
}

TEST_CASE("a tensor for each expert and one of all experts give the same weights", "[engine][experts][load]") {
  const test::TempFolder folder;
  write_mixture(folder);
  const engine::LoadedModel apart = engine::LoadedModel::load(folder.path(), {"cpu", "float32"});
  stack_experts(folder);
  const engine::LoadedModel stacked = engine::LoadedModel::load(folder.path(), {"cpu", "float32"});
  CHECK(layer_of(apart).gate_up.sizes() == at::IntArrayRef({3, 48, 64}));
  CHECK(layer_of(apart).down.sizes() == at::IntArrayRef({3, 64, 24}));
  for (const std::size_t i : {0, 1}) {
    const engine::LayerWeights &a = apart.weights().layers[i], &b = stacked.weights().layers[i];
    CHECK(at::equal(a.router, b.router));
    CHECK(at::equal(a.gate_up, b.gate_up));
    CHECK(at::equal(a.down, b.down));
  }
  CHECK(apart.info().n_parameters == stacked.info().n_parameters);
  std::int64_t expected = 0;
  for (const auto& [name, shape] : test::tensor_shapes(apart.config())) {
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    expected += n;
  }
  CHECK(apart.info().n_parameters == expected);
}

TEST_CASE("a file with one tensor of all experts needs the other", "[engine][experts][load]") {
  const test::TempFolder folder;
  write_mixture(folder);
  stack_experts(folder, "model.layers.1.mlp.experts.down_proj");
  CHECK_THAT(test::error_of([&] {
               engine::LoadedModel::load(folder.path(), {"cpu", "float32"});
             }),
             Catch::Contains("model.layers.1.mlp.experts.down_proj: tensor missing; expected shape [3, 64, 24]"));
}

TEST_CASE("training refuses a model with experts in one line", "[engine][experts]") {
  CHECK(test::error_of([&] { engine::DecoderModule(mixture_config(), 16, at::kCPU, at::kFloat, /*trained=*/false); }) ==
        "model: layer 1: a mixture of experts; expected a single MLP, for training");
}

TEST_CASE("what nothing computes of a layer with experts is refused by its name", "[engine][experts]") {
  ModelConfig config = mixture_config();
  config.layers[1].norms = NormPlacement::around;
  CHECK_THROWS_AS(engine::LoadedModel::random(config, 3, {"cpu", "float32"}), Error);
}

TEST_CASE("a router that is not finite is the reason of a run that fails", "[engine][experts]") {
  const engine::LoadedModel model = mixture();
  at::Tensor(layer_of(model).router)[3].fill_(NAN);
  at::Tensor(layer_of(model).gate_up).fill_(NAN);
  CHECK_THAT(test::error_of([&] { test::feed(model, test::some_ids(20), 20, "full"); }),
             Catch::Contains("layer 1: weights that are not finite numbers"));
}

TEST_CASE("a step's bytes and a token's operations are of the experts that are chosen", "[engine][experts][bench]") {
  const engine::LoadedModel model = mixture();
  ModelConfig dense = mixture_config();
  dense.layers[1].mlp = MlpKind::gated;
  const double attention = 2 * 128.0 * (4 * 64 + 2 * 2 * 64 + 4 * 64), one = 3.0 * 128 * 40, router = 128.0 * 12;
  CHECK(engine::layer_weights(dense) == attention + 2 * 3.0 * 128 * 192);
  CHECK(engine::layer_weights(model.config()) == attention + 3.0 * 128 * 192 + 12 * one + router);
  CHECK(engine::layer_flops_per_token(model.config()) == 2 * (attention + 3.0 * 128 * 192 + 3 * one + router));
  const double all = engine::weight_bytes(model), step = engine::bytes_per_step(model, 0, nullptr, 1);
  CHECK(step == Approx(all - 4 * 9 * one));
  // Of two sequences with three of twelve each, 12 (1 - (9 / 12)^2) = 5.25 experts differ.
  CHECK(engine::bytes_per_step(model, 0, nullptr, 2) == Approx(all - 4 * (12 - 5.25) * one));
}

}  // namespace
}  // namespace kvscope
