// What a family's row and a layer's configuration say reaches every pass: a made-up family whose layers differ.
#include <algorithm>
#include <string>

#include "engine/model/ops.h"
#include "engine/model/transformer.h"
#include "tests/engine/small_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

constexpr int kTokens = 70;

const ModelFamily& made_up() {
  static const ModelFamily family = {
      .architecture = "MadeUpForCausalLM",
      .layer = {.norm_eps = 1e-3f, .qk_norm = true, .qkv_bias = true},
      .norm_offset = 1,
      .names = {.embedding = "embed", .layers = "blocks", .input_norm = "norm_1", .q = "attn.q", .down = "ffn.out"}};
  return family;
}

ModelConfig made_up_config() {
  ModelConfig config = test::small_config();
  config.set_family(made_up());
  config.layers[1].rope_theta = 500;
  config.layers[1].attention.scale = 0.2;
  config.layers[1].qk_norm = false;
  return config;
}

std::vector<float> logits(const ModelConfig& config, int prompt_len) {
  const engine::LoadedModel model = engine::LoadedModel::random(config, 3, {"cpu", "float32"});
  return test::feed(model, test::some_ids(kTokens, config.vocab_size, 4), prompt_len, "full").logits;
}

TEST_CASE("layers that differ give the same logits in a prompt and token by token", "[engine][layers]") {
  const std::vector<float> at_once = logits(made_up_config(), kTokens);
  CHECK(test::relative_difference(logits(made_up_config(), 1), at_once) < 1e-4);
}

TEST_CASE("everything that a layer is configured with has its effect", "[engine][layers]") {
  const std::vector<float> expected = logits(made_up_config(), 1);
  void (*const changes[])(LayerConfig&) = {
      [](LayerConfig& layer) { layer.norm_eps = 1e-1f; },
      [](LayerConfig& layer) { layer.qk_norm = true; },
      [](LayerConfig& layer) { layer.qkv_bias = false; },
      [](LayerConfig& layer) { layer.rope_theta = 600; },
      [](LayerConfig& layer) { layer.rope_scaling = {.kind = RopeKind::linear, .factor = 2}; },
      [](LayerConfig& layer) { layer.attention.scale = 0.3; },
  };
  for (const auto& change : changes) {
    CAPTURE(&change - changes);
    ModelConfig other = made_up_config();
    change(other.layers[1]);
    CHECK(test::relative_difference(logits(other, 1), expected) > 1e-3);
    CHECK(test::relative_difference(logits(other, kTokens), logits(other, 1)) < 1e-4);
  }
}

TEST_CASE("what nothing computes of a layer is refused by its name", "[engine][layers]") {
  const auto refusal = [](void (*change)(LayerConfig&)) {
    ModelConfig config = made_up_config();
    change(config.layers[1]);
    return test::error_of([&] { engine::LoadedModel::random(config, 3, {"cpu", "float32"}); });
  };
  CHECK_THAT(refusal([](LayerConfig& layer) { layer.norms = NormPlacement::around; }),
             Catch::StartsWith("model: layer 1: norms after attention and MLP, which is not supported"));
  CHECK_THAT(refusal([](LayerConfig& layer) { layer.activation = MlpActivation::gelu_tanh; }),
             Catch::StartsWith("model: layer 1: an MLP with gelu_pytorch_tanh"));
  CHECK_THAT(refusal([](LayerConfig& layer) { layer.attention.soft_cap = 50; }),
             Catch::StartsWith("model: layer 1: a soft cap of attention scores, which is not supported"));
  CHECK_THAT(refusal([](LayerConfig& layer) { layer.attention.has_sink = true; }),
             Catch::StartsWith("model: layer 1: a sink logit of attention"));
}

TEST_CASE("twice the queries under half the scale are the same attention, to the last bit", "[engine][layers]") {
  const auto scaled = [](double scale, float factor) {
    ModelConfig config = made_up_config();
    for (LayerConfig& layer : config.layers) {
      layer.qk_norm = false;
      layer.attention.scale = scale;
    }
    const engine::TensorSource source = engine::formula_source(3);
    const engine::Weights weights = engine::build_weights(
        config,
        [&](const std::string& name, const std::vector<std::int64_t>& shape) {
          return source(name, shape) * (name.find("attn.q") != std::string::npos ? factor : 1.0f);
        },
        c10::kCPU, at::kFloat);
    struct Hook final : engine::AttentionHook {
      at::Tensor attend(int, const engine::LayerTokens& t) override {
        return engine::ops::lifetime_attention(t.q, {t.k.transpose(0, 1), t.v.transpose(0, 1)}, 0, t.scale);
      }
    } hook;
    const std::vector<std::int32_t> ids = test::some_ids(kTokens, config.vocab_size, 4);
    return engine::forward(config, weights, engine::ids_tensor(weights, ids.data(), kTokens), 0, hook);
  };
  CHECK(at::equal(scaled(0.125, 1), scaled(0.0625, 2)));
  CHECK_FALSE(at::equal(scaled(0.125, 1), scaled(0.0625, 1)));
}

TEST_CASE("a family's tensors are asked for by its own names, and its norms' offset is added", "[engine][layers]") {
  std::vector<std::string> asked;
  const engine::TensorSource source = engine::formula_source(3);
  const engine::Weights weights = engine::build_weights(
      made_up_config(),
      [&](const std::string& name, const std::vector<std::int64_t>& shape) {
        asked.push_back(name);
        return source(name, shape);
      },
      c10::kCPU, at::kFloat);
  for (const char* name : {"embed.weight", "blocks.1.norm_1.weight", "blocks.0.attn.q.weight", "blocks.1.attn.q.bias",
                           "blocks.0.self_attn.k_norm.weight", "blocks.1.ffn.out.weight", "model.norm.weight"}) {
    CAPTURE(name);
    CHECK(std::count(asked.begin(), asked.end(), name) == 1);
  }
  CHECK(at::equal(weights.layers[1].input_norm, source("blocks.1.norm_1.weight", {128}) + 1));
  CHECK(at::equal(weights.final_norm, source("model.norm.weight", {128}) + 1));
  CHECK_FALSE(weights.layers[1].q_norm.defined());
}

}  // namespace
}  // namespace kvscope
