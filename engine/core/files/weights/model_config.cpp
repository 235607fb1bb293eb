#include "engine/core/files/weights/model_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "engine/core/files/weights/config_keys.h"
#include "engine/core/files/weights/kernel_limits.h"
#include "engine/core/files/weights/rope_config.h"
#include "engine/core/files/weights/text_part.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/python_json.h"
#include "engine/core/support/refuse.h"
#include "engine/core/support/unread_keys.h"

namespace kvscope {
namespace {

using nlohmann::json;

// Generous: several times the largest published model, small enough that no product of two overflows 64 bits and no
// typing error allocates the machine away before the weights are compared with it. What kernels take: kernel_limits.h.
constexpr std::int64_t kMaxVocab = 1 << 22, kMaxWidth = 1 << 20, kMaxLayers = 1024;
constexpr std::int64_t kMaxFilePositions = 1 << 30;
constexpr const char *kStill = "no_rope_layers", *kScale = "query_pre_attn_scalar", *kActivation = "hidden_activation",
                     *kSoftCap = "attn_logit_softcapping", *kLogitCap = "final_logit_softcapping",
                     *kBothWays = "use_bidirectional_attention", *kPattern = "sliding_window_pattern",
                     *kOtherPattern = "_sliding_window_pattern", *kLimit = "swiglu_limit",
                     *kQuantized = "quantization_config";
constexpr const char* kArchitectureSuffix = "ForCausalLM";
constexpr double kClampedLimit = 7;  // of MlpActivation::clamped, kernels/glu.h

class Reader {
 public:
  /// `place`: of `config` in its file, such as "text_config".
  Reader(const json& config, std::string file, const std::string& place = "")
      : config_(config),
        file_(std::move(file)),
        place_(place.empty() ? "" : place + "."),
        object_(config, file_, place) {}

  ModelConfig read() {
    ModelConfig c;
    const ModelFamily& family = read_family();
    c.vocab_size = size_or("vocab_size", kMaxVocab, family.sizes.vocab);
    c.hidden_size = size("hidden_size", kMaxNormRow);
    c.intermediate_size = size("intermediate_size", kMaxWidth);
    c.n_layers = size("num_hidden_layers", kMaxLayers);
    read_heads(c, family);
    c.max_positions = size_or("max_position_embeddings", kMaxFilePositions, family.sizes.positions);
    c.rms_norm_eps = family.layer.norm_eps;
    if (config_.contains("rms_norm_eps"))  // null is no number, and none that a model was trained with
      c.rms_norm_eps = static_cast<float>(object_.number("rms_norm_eps", 1e-12, 0.1));
    c.tie_word_embeddings = object_.boolean_or("tie_word_embeddings", family.tied);
    c.set_family(family);
    refuse_what_is_not_computed(family);
    read_layers(c);
    c.dtype = read_dtype();
    c.eos_ids = token_ids(config_, "eos_token_id", file_, c.vocab_size, c.warnings);
    token_ids(config_, "bos_token_id", file_, c.vocab_size, c.warnings);  // not used; one out of range is odd
    check_kernels(c, file_);
    warn_of_other_keys(config_, family, file_, c.warnings);
    return c;
  }

 private:
  [[noreturn]] void fail(const std::string& where, std::string found, std::string expected,
                         std::string hint = "") const {
    refuse(file_, place_ + where, std::move(found), std::move(expected), std::move(hint));
  }

  int size(const char* key, std::int64_t max) const { return static_cast<int>(object_.integer(key, 1, max)); }
  int size_or(const char* key, std::int64_t max, int fallback) const {
    return fallback > 0 ? static_cast<int>(object_.integer_or(key, fallback, 1, max)) : size(key, max);
  }

  /// By architectures; by model_type alone where that names none, as in configurations made by hand.
  const ModelFamily& read_family() const {
    std::string supported;
    for (const ModelFamily& family : model_families()) {
      const std::string_view name = family.architecture;  // all end alike; a line has no room for all of each
      supported += (supported.empty() ? "" : ", ") + std::string(name.substr(0, name.rfind(kArchitectureSuffix)));
    }
    const std::string expected = std::string("NAME") + kArchitectureSuffix + ", where NAME is one of: " + supported;
    const auto given = config_.find("architectures");
    if (given == config_.end() || given->is_null() || *given == json::array()) {
      for (const ModelFamily& family : model_families()) {
        if (object_.text_or("model_type", "") == family.model_type) return family;
      }
      fail("architectures", given == config_.end() ? "missing" : "none", expected);
    }
    const json& names = *given;
    if (!names.is_array() || names.size() != 1 || !names.front().is_string())
      fail("architectures", "not a list of one name", expected);
    const auto name = names.front().get<std::string>();
    const ModelFamily* family = find_family(name);
    if (family == nullptr) fail("architectures", in_quotes(name) + " is not supported", expected, kOtherEngine);
    // Whoever reads the one must not load another model than whoever reads the other.
    if (const std::string type = object_.text_or("model_type", family->model_type); type != family->model_type)
      fail("model_type", in_quotes(type), in_quotes(family->model_type) + " of " + name);
    return *family;
  }

  /// What config.json says of all layers, and then of some.
  void read_layers(ModelConfig& c) const {
    const ModelFamily& family = *c.family;
    LayerConfig common = family.layer;
    common.norm_eps = c.rms_norm_eps;
    common.activation = read_activation(family);
    if (family.reads(kScale)) common.attention.scale = 1 / std::sqrt(object_.number_or(kScale, 256, 1e-3, 1e6));
    if (family.reads(kSoftCap)) common.attention.soft_cap = object_.number_or(kSoftCap, 0, 1e-3, 1e6);
    LayerConfig local = common;
    read_rotations(object_, c, common, local);
    c.layers.assign(c.layers.size(), common);
    if (family.reads(kStill)) read_still_layers(c);
    if (family.layer.mlp == MlpKind::experts) read_experts(object_, c);
    const std::vector<bool> slides = sliding_layers(c);
    read_windows(c, slides);
    for (std::size_t i = 0; i < slides.size(); ++i) {
      if (!slides[i]) continue;
      c.layers[i].rope_theta = local.rope_theta;
      c.layers[i].rope_scaling = local.rope_scaling;
    }
  }

  /// Layers that do not rotate q and k (SmolLM3): 0 in the list, or each interval-th.
  void read_still_layers(ModelConfig& c) const {
    const std::int64_t interval = object_.integer_or("no_rope_layer_interval", 4, 1, kMaxLayers);
    const json list = object_.has(kStill) ? config_[kStill] : json();
    const bool fits = list.is_null() || (list.is_array() && list.size() == c.layers.size());
    if (!fits) fail(kStill, "not a list of " + std::to_string(c.layers.size()), "0 or 1 for each layer");
    for (std::size_t i = 0; i < c.layers.size(); ++i) {
      if (!list.is_null() && list[i] != 0 && list[i] != 1) fail(kStill, list[i].dump(), "0 or 1 for each layer");
      c.layers[i].rotates = list.is_null() ? (static_cast<std::int64_t>(i) + 1) % interval != 0 : list[i] == 1;
    }
  }

  void read_heads(ModelConfig& c, const ModelFamily& family) const {
    c.n_heads = size_or("num_attention_heads", kMaxHeads, family.sizes.heads);
    const bool implied = family.kv_heads >= 0 && !object_.has("num_key_value_heads");
    const bool as_heads = family.kv_heads == 0 || config_.contains("num_key_value_heads");  // null
    c.n_kv_heads = !implied ? size("num_key_value_heads", kMaxHeads) : as_heads ? c.n_heads : family.kv_heads;
    if (c.n_heads % c.n_kv_heads != 0) {
      fail("num_key_value_heads", std::to_string(c.n_kv_heads),
           "a divisor of num_attention_heads " + std::to_string(c.n_heads));
    }
    if (object_.has("head_dim")) {
      c.head_dim = size("head_dim", kMaxHeadDim);
    } else if (family.head_dim > 0) {
      c.head_dim = family.head_dim;
    } else if (c.hidden_size % c.n_heads != 0) {
      fail("hidden_size", std::to_string(c.hidden_size),
           "a multiple of num_attention_heads " + std::to_string(c.n_heads) + " if head_dim is missing");
    } else {
      c.head_dim = c.hidden_size / c.n_heads;
    }
  }

  /// Settings that would change the result and that the model here does not have: refused rather than ignored.
  void refuse_what_is_not_computed(const ModelFamily& family) const {
    if (is_quantized() && !is_mxfp4(family)) {
      fail("quantization_config", "quantized weights are not supported", family.names.turned_experts ? "mxfp4" : "null",
           "use the model's unquantized weights");
    }
    for (const char* key : {"attention_bias", "mlp_bias", "lm_head_bias"}) {
      const bool expected = family.layer.o_bias && std::string_view(key) == "attention_bias";
      if (object_.boolean_or(key, expected) != expected)
        fail(key, expected ? "false is not supported" : "true is not supported",
             std::string(expected ? "true" : "false") + ", as in the published models", kOtherEngine);
    }
    if (family.reads(kLimit) && object_.number_or(kLimit, kClampedLimit, 0, 1e6) != kClampedLimit)
      fail(kLimit, "another limit is not supported", "7, as in the published models", kOtherEngine);
    if (family.reads(kBothWays) && object_.boolean_or(kBothWays, false))
      fail(kBothWays, "true is not supported", "false: a cache holds what came before", kOtherEngine);
    if (family.reads(kLogitCap) && object_.has(kLogitCap))
      fail(kLogitCap, "a soft cap of the logits is not supported", "null", kOtherEngine);
  }

  bool is_quantized() const { return object_.has(kQuantized); }
  /// Packed experts, which become numbers when they are read (mxfp4.h).
  bool is_mxfp4(const ModelFamily& family) const {
    const json& how = config_[kQuantized];
    return family.names.turned_experts && how.is_object() && how.value("quant_method", json()) == "mxfp4";
  }

  MlpActivation read_activation(const ModelFamily& family) const {
    const char* key = family.reads(kActivation) ? kActivation : "hidden_act";
    if (!object_.has(key)) return family.layer.activation;
    const std::string act = object_.text_or(key, "");
    const bool is_silu = act == "silu" || act == "swish";  // two names of one function
    if (family.layer.activation == MlpActivation::clamped) {
      if (is_silu) return MlpActivation::clamped;  // transformers does not read the key
      fail(key, in_quotes(act) + " is not supported", "\"silu\"", kOtherEngine);
    }
    if (is_silu) return MlpActivation::silu;
    if (act == "gelu_pytorch_tanh") return MlpActivation::gelu_tanh;
    fail(key, in_quotes(act) + " is not supported", "\"silu\" or \"gelu_pytorch_tanh\"", kOtherEngine);
  }

  /// The windows of the layers that slide. One as long as the context changes nothing. Where a switch says so,
  /// transformers' classes have no window at all unless use_sliding_window is true.
  void read_windows(ModelConfig& c, const std::vector<bool>& slides) const {
    const ModelFamily& family = *c.family;
    if (family.windows == WindowKeys::none) return;
    const bool is_null = config_.contains("sliding_window") && config_["sliding_window"].is_null();
    const auto window = object_.integer_or("sliding_window", family.window, 1, kMaxFilePositions);  // 0: none
    const bool by_switch =
        family.windows == WindowKeys::by_switch || family.windows == WindowKeys::everywhere_by_switch;
    const bool none = is_null || window == 0 || (by_switch && !object_.boolean_or("use_sliding_window", false));
    if (family.windows == WindowKeys::everywhere || family.windows == WindowKeys::everywhere_by_switch) {
      if (!none) limit_context(c, window);
      return;
    }
    for (std::size_t i = 0; i < slides.size(); ++i) {
      if (!slides[i]) continue;
      if (none && object_.has("layer_types"))
        fail("layer_types", "sliding_attention in layer " + std::to_string(i) + ", but no window",
             by_switch ? "use_sliding_window: true and sliding_window: a number of tokens"
                       : "sliding_window: a number of tokens");
      if (!none && window < c.max_positions) c.layers[i].window = static_cast<int>(window);
    }
  }

  /// Of a model whose layers all have the same window. No policy would have anything to decide in local layers, so the
  /// context ends where the window would begin to hide tokens: up to there all layers are global.
  void limit_context(ModelConfig& c, std::int64_t window) const {
    if (window >= c.max_positions) return;
    c.max_positions = static_cast<int>(window);
    c.warnings.push_back(file_ + ": sliding_window: all layers have a window of " + std::to_string(window) +
                         " tokens; the context is limited to it");
  }

  /// [n_layers]: which attend to a window alone, by layer_types or, without that, by the family's rule.
  std::vector<bool> sliding_layers(const ModelConfig& c) const {
    if (object_.has("layer_types")) return listed_sliding_layers(c);
    std::vector<bool> sliding(c.layers.size());
    const ModelFamily& family = *c.family;
    if (family.windows == WindowKeys::by_switch && family.reads(kStill)) {
      for (std::size_t i = 0; i < sliding.size(); ++i) sliding[i] = !c.layers[i].rotates;
    } else if (family.windows == WindowKeys::by_switch) {
      constexpr std::int64_t kDefaultFullLayers = 28;  // of transformers
      const std::int64_t full = object_.integer_or("max_window_layers", kDefaultFullLayers, 0, kMaxLayers);
      for (std::size_t i = 0; i < sliding.size(); ++i) sliding[i] = static_cast<std::int64_t>(i) >= full;
    } else if (family.windows == WindowKeys::by_pattern) {
      const char* key = object_.has(kOtherPattern) ? kOtherPattern : kPattern;
      const auto pattern = static_cast<std::size_t>(
          family.reads(key) ? object_.integer_or(key, family.pattern, 1, kMaxLayers) : family.pattern);
      for (std::size_t i = 0; i < sliding.size(); ++i) sliding[i] = (i + 1) % pattern != 0;
    }
    return sliding;
  }

  std::vector<bool> listed_sliding_layers(const ModelConfig& c) const {
    const bool has_windows = c.family->windows == WindowKeys::by_switch || c.family->windows == WindowKeys::by_pattern;
    std::vector<bool> sliding;
    const json& types = config_["layer_types"];
    if (!types.is_array()) fail("layer_types", "not a list", "a list of text");
    for (const json& type : types) {
      sliding.push_back(type == "sliding_attention");
      if (type == "full_attention" || (sliding.back() && has_windows)) continue;
      const std::string found =
          type.is_string() ? in_quotes(type.get<std::string>()) + " is" : "a kind of layer that is";
      fail("layer_types", found + " not supported",
           has_windows ? "\"full_attention\" or \"sliding_attention\" in every layer"
                       : "\"full_attention\" in every layer",
           kOtherEngine);
    }
    if (types.size() != static_cast<std::size_t>(c.n_layers))
      fail("layer_types", std::to_string(types.size()) + " layers", std::to_string(c.n_layers) + ", num_hidden_layers");
    return sliding;
  }

  std::string read_dtype() const {
    const char* key = object_.has("dtype") ? "dtype" : "torch_dtype";
    std::string name = object_.text_or(key, is_quantized() ? "bfloat16" : "float32");
    if (name.starts_with("torch.")) name.erase(0, 6);
    constexpr const char* kKnown[] = {"float32", "float16", "bfloat16"};
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown)) {
      fail(key, in_quotes(name) + " is not supported", "\"float32\", \"float16\" or \"bfloat16\"");
    }
    return name;
  }

  const json& config_;
  std::string file_, place_;
  JsonObject object_;
};

}  // namespace

double ModelConfig::attention_scale(int layer) const {
  const double own = layers[static_cast<std::size_t>(layer)].attention.scale;
  return own != 0 ? own : 1 / std::sqrt(static_cast<double>(head_dim));
}

std::vector<std::int32_t> ModelConfig::windows() const {
  std::vector<std::int32_t> windows;
  for (const LayerConfig& layer : layers) windows.push_back(layer.window);
  return std::ranges::any_of(windows, [](std::int32_t window) { return window > 0; }) ? windows
                                                                                      : std::vector<std::int32_t>();
}

void ModelConfig::set_family(const ModelFamily& of) {
  family = &of;
  layers.assign(static_cast<std::size_t>(n_layers), of.layer);
}

ModelConfig ModelConfig::of(const json& config, const std::string& file) {
  const std::optional<TextPart> part = text_part(config, file);
  if (!part) return Reader(config, file).read();
  ModelConfig c = Reader(part->config, file, TextPart::kKey).read();
  c.warnings.push_back(part->warning);
  return c;
}

ModelConfig ModelConfig::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  ModelConfig c = of(read_python_json(path), path.string());
  GenerationConfig generation = GenerationConfig::load(folder, c.vocab_size);
  // What generation ends at is said here, where both say it: chat models add their end-of-turn token.
  if (generation.eos_ids) c.eos_ids = std::move(*generation.eos_ids);
  c.generation = generation.defaults;
  c.warnings.insert(c.warnings.end(), generation.warnings.begin(), generation.warnings.end());
  return c;
}

}  // namespace kvscope
