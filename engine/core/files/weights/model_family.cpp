#include "engine/core/files/weights/model_family.h"

#include <algorithm>

namespace kvscope {

std::span<const ModelFamily> model_families() {
  static const ModelFamily kFamilies[] = {
      {.architecture = "Qwen3ForCausalLM",
       .model_type = "qwen3",
       .layer = {.qk_norm = QkNorm::heads},
       .windows = WindowKeys::by_switch,
       .head_dim = 128},
      {.architecture = "Qwen2ForCausalLM",
       .model_type = "qwen2",
       .layer = {.qkv_bias = true},
       .windows = WindowKeys::by_switch},
      {.architecture = "LlamaForCausalLM", .model_type = "llama", .kv_heads = 0},
      {.architecture = "MistralForCausalLM", .model_type = "mistral", .kv_heads = 8, .windows = WindowKeys::everywhere},
      {.architecture = "SmolLM3ForCausalLM",
       .model_type = "smollm3",
       .layer = {.rope_theta = 2e6},
       .kv_heads = 4,
       .windows = WindowKeys::by_switch,
       .window = 0,
       .tied = true,
       .keys = {"no_rope_layers", "no_rope_layer_interval"}},
      {.architecture = "Phi3ForCausalLM",
       .model_type = "phi3",
       .layer = {.norm_eps = 1e-5f},
       .kv_heads = 0,
       .windows = WindowKeys::everywhere,
       .window = 0,
       .partial_rotation = true,
       .names = {.qkv = "self_attn.qkv_proj", .gate_up = "mlp.gate_up_proj"}},
      {.architecture = "Gemma3ForCausalLM",
       .model_type = "gemma3_text",
       .whole = "Gemma3ForConditionalGeneration",
       .whole_type = "gemma3",
       .sizes = {.vocab = 262208, .heads = 8, .positions = 131072},
       .layer = {.norms = NormPlacement::around,
                 .qk_norm = QkNorm::heads,
                 .rope_theta = 1e6,
                 .attention = {.scale = 1.0 / 16},
                 .activation = MlpActivation::gelu_tanh},
       .kv_heads = 4,
       .windows = WindowKeys::by_pattern,
       .tied = true,
       .head_dim = 256,
       .norm_offset = 1,
       .scaled_embedding = true,
       .local_rope_theta = 10000,
       .keys = {"hidden_activation", "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping",
                "rope_local_base_freq", "sliding_window_pattern", "_sliding_window_pattern",
                "use_bidirectional_attention"},
       .names = {.post_norm = "pre_feedforward_layernorm"}},
      {.architecture = "Qwen3MoeForCausalLM",
       .model_type = "qwen3_moe",
       .layer = {.qk_norm = QkNorm::heads,
                 .mlp = MlpKind::experts,
                 .experts = {.n = 128, .per_token = 8, .intermediate = 768}},
       .kv_heads = 4,
       .windows = WindowKeys::everywhere_by_switch,
       .keys = {"num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob",
                "decoder_sparse_step", "mlp_only_layers"}},
      {.architecture = "Olmo2ForCausalLM",
       .model_type = "olmo2",
       .layer = {.norm_eps = 1e-5f, .norms = NormPlacement::after, .qk_norm = QkNorm::whole},
       .kv_heads = 0},
      {.architecture = "Olmo3ForCausalLM",
       .model_type = "olmo3",
       .layer = {.norm_eps = 1e-5f, .norms = NormPlacement::after, .qk_norm = QkNorm::whole},
       .kv_heads = 0,
       .windows = WindowKeys::by_pattern,
       .pattern = 4,
       .scales_local = false},
      {.architecture = "GptOssForCausalLM",
       .model_type = "gpt_oss",
       .layer = {.norm_eps = 1e-5f,
                 .qkv_bias = true,
                 .o_bias = true,
                 .rope_theta = 150000,
                 .rope_scaling = {.kind = RopeKind::yarn, .factor = 32, .original_positions = 4096, .truncate = false},
                 .attention = {.has_sink = true},
                 .mlp = MlpKind::experts,
                 .experts = {.n = 128, .per_token = 4, .normalised = true, .biased = true},
                 .activation = MlpActivation::clamped},
       .kv_heads = 8,
       .windows = WindowKeys::by_pattern,
       .window = 128,
       .pattern = 2,
       .head_dim = 64,
       // initial_context_length and experts_per_token repeat other keys
       .keys = {"num_local_experts", "num_experts_per_tok", "swiglu_limit", "initial_context_length",
                "experts_per_token"},
       .names = {.router = "mlp.router", .turned_experts = true}},
  };
  return kFamilies;
}

bool rotates_alike(const LayerConfig& a, const LayerConfig& b) {
  return a.rotates == b.rotates && a.rotated == b.rotated && a.rope_theta == b.rope_theta &&
         a.rope_scaling == b.rope_scaling;
}

RopeFrequencies rotation_of(const LayerConfig& layer, int head_dim) {
  RopeFrequencies out;
  if (layer.rotates)
    out = rope_frequencies(layer.rope_theta, layer.rotated > 0 ? layer.rotated : head_dim, layer.rope_scaling);
  out.inv_freq.resize(static_cast<std::size_t>(head_dim / 2));
  return out;
}

std::vector<std::int64_t> channel_order(const LayerConfig& layer, int head_dim) {
  if (layer.rotated == 0 || layer.rotated == head_dim) return {};
  const std::int64_t turning = layer.rotated / 2, still = (head_dim - layer.rotated) / 2;
  std::vector<std::int64_t> order;
  for (const std::int64_t half : {0, 1}) {
    for (std::int64_t i = 0; i < turning; ++i) order.push_back(half * turning + i);
    for (std::int64_t i = 0; i < still; ++i) order.push_back(layer.rotated + half * still + i);
  }
  return order;
}

const ModelFamily* find_family(std::string_view architecture) {
  const std::span<const ModelFamily> all = model_families();
  const auto row =
      std::find_if(all.begin(), all.end(), [&](const ModelFamily& f) { return architecture == f.architecture; });
  return row == all.end() ? nullptr : &*row;
}

std::string TensorNames::in_layer(int layer, const char* part, const char* kind) const {
  return std::string(layers) + "." + std::to_string(layer) + "." + part + kind;
}

}  // namespace kvscope
