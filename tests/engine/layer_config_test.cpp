// What a family's row and a layer's configuration say reaches every pass: a made-up family whose layers differ.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "engine/jobs/train/decoder_module.h"
#include "engine/model/ops.h"
#include "engine/model/transformer.h"
#include "kernels/device.h"
#include "tests/engine/policy_cases.h"
#include "tests/engine/small_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/skip.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

constexpr int kTokens = 70;

const ModelFamily& made_up() {
  static const ModelFamily family = {
      .architecture = "MadeUpForCausalLM",
      .layer = {.norm_eps = 1e-3f, .qk_norm = QkNorm::heads, .qkv_bias = true},
      .norm_offset = 1,
      .scaled_embedding = true,
      .names = {.embedding = "embed", .layers = "blocks", .input_norm = "norm_1", .q = "attn.q", .down = "ffn.out"}};
  return family;
}

ModelConfig made_up_config() {
  ModelConfig config = test::small_config();
  config.set_family(made_up());
  config.layers[1].rope_theta = 500;
  config.layers[1].attention.scale = 0.2;
  config.layers[1].qk_norm = QkNorm::none;
  config.layers[0].norms = NormPlacement::around;
  config.layers[0].activation = MlpActivation::gelu_tanh;
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
      [](LayerConfig& layer) { layer.qk_norm = QkNorm::heads; },
      [](LayerConfig& layer) { layer.qk_norm = QkNorm::whole; },
      [](LayerConfig& layer) { layer.qkv_bias = false; },
      [](LayerConfig& layer) { layer.o_bias = true; },
      [](LayerConfig& layer) { layer.rope_theta = 600; },
      [](LayerConfig& layer) { layer.rope_scaling = {.kind = RopeKind::linear, .factor = 2}; },
      [](LayerConfig& layer) { layer.attention.scale = 0.3; },
      [](LayerConfig& layer) { layer.attention.soft_cap = 1; },
      [](LayerConfig& layer) { layer.norms = NormPlacement::around; },
      [](LayerConfig& layer) { layer.norms = NormPlacement::after; },
      [](LayerConfig& layer) { layer.activation = MlpActivation::gelu_tanh; },
  };
  for (const auto& change : changes) {
    CAPTURE(&change - changes);
    ModelConfig other = made_up_config();
    change(other.layers[1]);
    CHECK(test::relative_difference(logits(other, 1), expected) > 1e-3);
    CHECK(test::relative_difference(logits(other, kTokens), logits(other, 1)) < 1e-4);
  }
}

/// Logits after the last of `ids` with attention as transformers writes it: a whole matrix of scores in double, capped,
/// the sink logits one more column that is dropped after the softmax.
std::vector<float> logits_by_matrix(const engine::LoadedModel& model, const std::vector<std::int32_t>& ids) {
  struct Hook final : engine::AttentionHook {
    at::Tensor attend(int, const engine::LayerTokens& t) override {
      const std::int64_t n = t.q.size(0), n_heads = t.q.size(1), group = n_heads / t.k.size(1);
      const auto heads = [](const at::Tensor& x, std::int64_t times) {  // [n_heads, n, head_dim]
        return x.to(at::kDouble).transpose(0, 1).repeat_interleave(times, 0);
      };
      at::Tensor s = heads(t.q, 1).matmul(heads(t.k, group).transpose(1, 2)) * t.scores.scale;
      if (t.scores.soft_cap > 0) s = at::tanh(s / t.scores.soft_cap) * t.scores.soft_cap;
      s.masked_fill_(at::ones({n, n}, at::kBool).triu(1), -INFINITY);
      const at::Tensor sink = t.scores.sink.to(at::kDouble).view({n_heads, 1, 1}).expand({n_heads, n, 1});
      const at::Tensor p = at::cat({s, sink}, -1).softmax(-1).narrow(-1, 0, n);
      return p.matmul(heads(t.v, group)).transpose(0, 1).to(t.q.scalar_type()).contiguous();
    }
  } hook;
  const auto n = static_cast<std::int64_t>(ids.size());
  const at::Tensor hidden =
      engine::forward(model.config(), model.weights(), engine::ids_tensor(model.weights(), ids.data(), n), 0, hook);
  const at::Tensor last = engine::logits_of(model.weights(), hidden.narrow(0, n - 1, 1).contiguous()).contiguous();
  return {last.data_ptr<float>(), last.data_ptr<float>() + last.numel()};
}

TEST_CASE("a soft cap and sink logits: a prompt at once, token by token and a matrix of scores are the same model",
          "[engine][layers][variant]") {
  const ModelConfig config = test::small_variant_config();
  const engine::LoadedModel model = engine::LoadedModel::random(config, 3, {"cpu", "float32"});
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, config.vocab_size, 4);
  const std::vector<float> expected = logits_by_matrix(model, ids);
  const int prompt_len = GENERATE(1, 40, kTokens);
  // float32 against float32 with attention in double: two layers of sums of 128 terms.
  CHECK(test::relative_difference(test::feed(model, ids, prompt_len, "full").logits, expected) < 1e-4);
  CHECK(test::relative_difference(logits(test::small_config(), kTokens), expected) > 1e-2);
}

TEST_CASE("on CUDA a soft cap and sink logits give the logits of the CPU", "[engine][layers][variant][cuda]") {
  if (kernels::device_count() == 0) return test::skip("no CUDA device");
  const std::string policy = GENERATE(as<std::string>{}, "full", "streaming:sinks=4,window=32");
  const int prompt_len = GENERATE(1, 40, kTokens);
  CAPTURE(policy, prompt_len);
  const ModelConfig config = test::small_variant_config();
  const auto logits_on = [&](const char* device, const char* dtype) {
    const engine::LoadedModel model = engine::LoadedModel::random(config, 3, {device, dtype});
    return test::feed(model, test::some_ids(kTokens, config.vocab_size, 4), prompt_len, policy).logits;
  };
  const std::vector<float> expected = logits_on("cpu", "float32");
  CHECK(test::relative_difference(logits_on("cuda", "float32"), expected) < 1e-4);   // float32 sums in another order
  CHECK(test::relative_difference(logits_on("cuda", "bfloat16"), expected) < 0.05);  // 8 bits, two layers
}

TEST_CASE("a sink logit of -inf in every head is none, one of 0 has its effect", "[engine][layers][variant]") {
  ModelConfig config = test::small_config();
  const auto logits_with = [&](bool has_sink, float sink) {
    for (LayerConfig& layer : config.layers) layer.attention.has_sink = has_sink;
    const engine::LoadedModel model = engine::LoadedModel::random(config, 3, {"cpu", "float32"});
    for (const engine::LayerWeights& layer : model.weights().layers) {
      if (layer.sink.defined()) at::Tensor(layer.sink).fill_(sink);
    }
    return test::feed(model, test::some_ids(kTokens, config.vocab_size, 4), 40, "full").logits;
  };
  const std::vector<float> plain = logits_with(false, 0);
  CHECK(logits_with(true, -INFINITY) == plain);  // the same bits: nothing is added to the denominator
  CHECK(test::relative_difference(logits_with(true, 0), plain) > 1e-3);
}

TEST_CASE("what computes no soft cap or no sink logit refuses a model that has one", "[engine][layers][variant]") {
  const ModelConfig config = test::small_variant_config();
  const engine::LoadedModel model = engine::LoadedModel::random(config, 3, {"cpu", "float32"});
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, config.vocab_size, 4);
  CHECK_THAT(test::error_of([&] { test::feed(model, ids, 40, "expected-attention:budget=40"); }),
             Catch::StartsWith("model: layer 0: a soft cap of attention scores; expected attention without it"));
  CHECK_THAT(test::error_of([&] { engine::DecoderModule(config, 16, at::kCPU, at::kFloat, /*trained=*/false); }),
             Catch::StartsWith("model: layer 0: a sink logit of attention"));
}

TEST_CASE("the trainer's pass over a sequence is the engine's prompt, in every family that it takes",
          "[engine][layers][family]") {
  const ModelFamily& family = test::some_family();
  const ModelConfig config = test::family_config(family);
  CAPTURE(family.architecture);
  std::optional<engine::DecoderModule> module;
  const std::string refusal =
      test::error_of([&] { module.emplace(config, kTokens, at::kCPU, at::kFloat, /*trained=*/false); });
  if (family.names.qkv != nullptr) {
    CHECK_THAT(refusal, Catch::Contains("queries, keys and values of one matrix"));
    return;
  }
  if (config.layers[1].attention.has_sink) {
    CHECK_THAT(refusal, Catch::Contains("a sink logit of attention"));
    return;
  }
  if (config.layers[1].mlp == MlpKind::experts) {
    CHECK_THAT(refusal, Catch::Contains("a mixture of experts"));
    return;
  }
  const engine::TensorSource source = engine::formula_source(3);
  for (const auto& spec : module->parameters().specs())
    module->parameters().master(spec.name).copy_(source(spec.name, spec.shape));
  module->parameters().publish();
  const engine::Weights weights = engine::build_weights(config, source, c10::kCPU, at::kFloat);
  struct Hook final : engine::AttentionHook {
    at::Tensor attend(int, const engine::LayerTokens& t) override {
      const std::int64_t n = t.q.size(0), n_kv_heads = t.k.size(1);
      at::Tensor evict_at;  // of a local layer: when the window has passed
      if (t.window > 0) evict_at = (at::arange(n, at::kInt) + t.window).expand({n_kv_heads, n}).contiguous();
      return engine::ops::lifetime_attention(t.q, {t.k.transpose(0, 1), t.v.transpose(0, 1), evict_at}, 0, t.scores);
    }
  } hook;
  const std::vector<std::int32_t> ids = test::some_ids(kTokens, config.vocab_size, 4);
  const at::Tensor rows = engine::ids_tensor(weights, ids.data(), kTokens);
  const at::Tensor expected = engine::forward(config, weights, rows, 0, hook);
  const at::Tensor found = module->hidden(rows.unsqueeze(0)).squeeze(0).detach();
  CHECK(((found - expected).abs().max() / expected.abs().max()).item<double>() < 1e-5);
}

TEST_CASE("twice the queries under half the scale are the same attention, to the last bit", "[engine][layers]") {
  const auto scaled = [](double scale, float factor) {
    ModelConfig config = made_up_config();
    for (LayerConfig& layer : config.layers) {
      layer.qk_norm = QkNorm::none;
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
        return engine::ops::lifetime_attention(t.q, {t.k.transpose(0, 1), t.v.transpose(0, 1)}, 0, t.scores);
      }
    } hook;
    const std::vector<std::int32_t> ids = test::some_ids(kTokens, config.vocab_size, 4);
    return engine::forward(config, weights, engine::ids_tensor(weights, ids.data(), kTokens), 0, hook);
  };
  CHECK(at::equal(scaled(0.125, 1), scaled(0.0625, 2)));
  CHECK_FALSE(at::equal(scaled(0.125, 1), scaled(0.0625, 1)));
}

TEST_CASE("a family's tensors are asked for by its own names, and its norms' offset is kept", "[engine][layers]") {
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
  CHECK(at::equal(weights.layers[1].input_norm, source("blocks.1.norm_1.weight", {128})));
  CHECK(weights.norm_offset == 1);
  CHECK(weights.embed_scale == std::sqrt(128.0f));
  CHECK_FALSE(weights.layers[1].q_norm.defined());
}

}  // namespace
}  // namespace kvscope
