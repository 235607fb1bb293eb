#pragma once
// The families of models that can be loaded. Whatever distinguishes one of them is in its row: who reads, computes or
// trains a model asks the row and its layers, never for a name.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/files/weights/expert_config.h"
#include "engine/core/files/weights/rope_frequencies.h"

namespace kvscope {

/// Where a layer has norms. before: of what enters attention and MLP. around: also of what they give, before it is added
/// to the residual stream (Gemma 2 and 3). after: of that alone (OLMo 2 and 3).
enum class NormPlacement : std::uint8_t { before, around, after };

/// RMSNorm on q and k before they rotate. heads: each head by itself. whole: one norm over all heads of q, one over those
/// of k (OLMo 2 and 3).
enum class QkNorm : std::uint8_t { none, heads, whole };

/// gated: down(act(gate(n)) * up(n)). experts: several of them, of which a router chooses (ExpertConfig).
enum class MlpKind : std::uint8_t { gated, experts };

/// act of an MLP; gelu_tanh is x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). clamped: limits what enters it and adds 1 to
/// its factor (gpt-oss, kernels/glu.h), of experts alone.
enum class MlpActivation : std::uint8_t { silu, gelu_tanh, clamped };

/// Which keys of config.json give layers a window. by_switch: sliding_window where use_sliding_window is true, in the layers
/// of layer_types, or from max_window_layers on, or of a family with no_rope_layers those. everywhere: sliding_window
/// alone, in all layers. everywhere_by_switch: the same where use_sliding_window is true. by_pattern: sliding_window in
/// the layers of layer_types, or in all but each `pattern`-th.
enum class WindowKeys : std::uint8_t { none, by_switch, everywhere, everywhere_by_switch, by_pattern };

/// How a layer's attention makes weights of q . k.
struct AttentionVariant {
  double scale = 0;     // of q . k; 0: 1 / sqrt(head_dim)
  double soft_cap = 0;  // c of c tanh(s / c), s a scaled score (Gemma 2); 0: none
  // A learned logit of each query head joins the softmax's denominator and has no value (gpt-oss).
  bool has_sink = false;
  bool operator==(const AttentionVariant&) const = default;
};

/// What may differ from layer to layer of one model. head_dim may not: the pages of a cache are all of one size.
struct LayerConfig {
  float norm_eps = 1e-6f;
  NormPlacement norms = NormPlacement::before;
  QkNorm qk_norm = QkNorm::none;
  bool qkv_bias = false;  // q, k and v have a bias
  bool o_bias = false;    // and so has what leaves attention
  bool rotates = true;    // q and k turn with their position
  int rotated = 0;        // channels of a head that turn, the first ones; 0: all
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  AttentionVariant attention;
  int window = 0;  // newest tokens that a query sees, its own included: a local layer; 0: all
  MlpKind mlp = MlpKind::gated;
  ExpertConfig experts;  // of MlpKind::experts
  MlpActivation activation = MlpActivation::silu;
  bool operator==(const LayerConfig&) const = default;
};

/// Tensors in the files of a family, without ".weight" and ".bias"; the default is what transformers calls a Llama's.
struct TensorNames {
  const char *embedding = "model.embed_tokens", *final_norm = "model.norm", *lm_head = "lm_head",
             *layers = "model.layers";
  // within a layer
  const char *input_norm = "input_layernorm", *q = "self_attn.q_proj", *k = "self_attn.k_proj", *v = "self_attn.v_proj",
             *o = "self_attn.o_proj", *q_norm = "self_attn.q_norm", *k_norm = "self_attn.k_norm",
             *sink = "self_attn.sinks", *post_norm = "post_attention_layernorm", *gate = "mlp.gate_proj",
             *up = "mlp.up_proj", *down = "mlp.down_proj";
  // of a layer with norms around or after
  const char *attention_out_norm = "post_attention_layernorm", *mlp_out_norm = "post_feedforward_layernorm";
  // of a layer with experts: the router; gate_proj, up_proj and down_proj of expert 3 are in "mlp.experts.3"
  const char *router = "mlp.gate", *experts = "mlp.experts";
  // Experts as one tensor of each matrix of all of them, [n, columns, rows], rows of gate and up by turns; or packed as MXFP4,
  // [n, rows, columns], with the same turns (gpt-oss)
  bool turned_experts = false;
  // instead of q, k and v, and of gate and up: one tensor of their rows in this order
  const char *qkv = nullptr, *gate_up = nullptr;

  /// "model.layers.3.self_attn.q_proj.weight"
  std::string in_layer(int layer, const char* part, const char* kind = ".weight") const;
};

/// Sizes of a model whose config.json leaves them out; 0: they must be there.
struct SizeDefaults {
  int vocab = 0, heads = 0, positions = 0;
};

struct ModelFamily {
  const char* architecture = "";             // as config.json names it
  const char* model_type = "";               // and again
  const char *whole = "", *whole_type = "";  // of a larger model whose text part it may be (text_part.h)
  SizeDefaults sizes;
  LayerConfig layer;                      // of every layer, where config.json does not speak of it
  int kv_heads = -1;                      // without num_key_value_heads; 0: as many as heads; -1: it must be there
  WindowKeys windows = WindowKeys::none;  // which keys it knows
  int window = 4096;                      // without sliding_window; 0: none
  int pattern = 6;                        // of by_pattern, without layer_types
  bool partial_rotation = false;          // knows partial_rotary_factor
  bool tied = false;                      // without tie_word_embeddings
  int head_dim = 0;                       // without head_dim; 0: hidden_size / num_attention_heads
  float norm_offset = 0;                  // its norms multiply by norm_offset + weight
  bool scaled_embedding = false;          // rows of the embedding enter the first layer times sqrt(hidden_size)
  double local_rope_theta = 0;            // of layers with a window, without rope_local_base_freq; 0: as of the others
  bool scales_local = true;               // false: rope_scaling is not of layers with a window (OLMo 3)
  // What read_layers() reads of its config.json and of no other family's; there it is a key that is not understood.
  std::array<std::string_view, 8> keys = {};
  TensorNames names;

  bool reads(std::string_view key) const { return std::ranges::find(keys, key) != keys.end(); }
};

/// Whether q and k turn alike in both.
bool rotates_alike(const LayerConfig& a, const LayerConfig& b);
/// Frequency 0 for channels that do not turn.
RopeFrequencies rotation_of(const LayerConfig& layer, int head_dim);
/// Which channel of the files is each channel of a head's queries and keys here. Kernels turn channel i with i + head_dim / 2;
/// files of a layer whose first `rotated` channels turn pair i with i + rotated / 2. Empty where that is the same. No product
/// of a query and a key depends on the order.
std::vector<std::int64_t> channel_order(const LayerConfig& layer, int head_dim);

std::span<const ModelFamily> model_families();
/// Null if there is none of that name.
const ModelFamily* find_family(std::string_view architecture);

}  // namespace kvscope
