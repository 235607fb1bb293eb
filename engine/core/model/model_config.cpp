#include "engine/core/model/model_config.h"

#include <algorithm>
#include <iterator>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope {
namespace {

using nlohmann::json;

/// One row for each model class that can be loaded, and what differs between them.
struct Family {
  const char* architecture;
  bool qk_norm;  // RMSNorm on q and k, per head
};
constexpr Family kFamilies[] = {
    {"Qwen3ForCausalLM", true},
};

// Generous: several times the largest published model, small enough that no product of two overflows 64 bits and no
// typing error allocates the machine away before the weights are compared with it.
constexpr std::int64_t kMaxVocab = 1 << 22, kMaxWidth = 1 << 20, kMaxLayers = 1024, kMaxHeads = 1024,
                       kMaxHeadDim = 1024;
constexpr std::int64_t kMaxPositions = 1 << 30;

class Reader {
 public:
  Reader(const json& config, std::string file) : config_(config), file_(std::move(file)), object_(config, file_) {}

  ModelConfig read() {
    ModelConfig c;
    const Family& family = find_family();
    c.architecture = family.architecture;
    c.qk_norm = family.qk_norm;
    c.vocab_size = size("vocab_size", kMaxVocab);
    c.hidden_size = size("hidden_size", kMaxWidth);
    c.intermediate_size = size("intermediate_size", kMaxWidth);
    c.n_layers = size("num_hidden_layers", kMaxLayers);
    read_heads(c);
    c.max_positions = size("max_position_embeddings", kMaxPositions);
    c.rms_norm_eps = static_cast<float>(object_.number_or("rms_norm_eps", 1e-6, 1e-12, 0.1));
    c.tie_word_embeddings = object_.boolean_or("tie_word_embeddings", false);
    read_rope(c);
    refuse_what_is_not_computed();
    c.dtype = read_dtype();
    c.eos_ids = token_ids(object_, "eos_token_id", c.vocab_size);
    token_ids(object_, "bos_token_id", c.vocab_size);  // not used, but one out of range shows a damaged file
    return c;
  }

  /// An id, a list of ids, null or absent.
  static std::vector<std::int32_t> token_ids(const JsonObject& object, const char* key, int vocab_size) {
    std::vector<std::int32_t> ids;
    if (!object.has(key)) return ids;
    const json& value = object.raw()[key];
    if (!value.is_array()) return {static_cast<std::int32_t>(object.integer(key, 0, vocab_size - 1))};
    for (const json& element : value) {
      // JsonObject reads objects: lend it the element under the list's own name.
      const json lent = {{key, element}};
      ids.push_back(static_cast<std::int32_t>(JsonObject(lent, object.file()).integer(key, 0, vocab_size - 1)));
    }
    return ids;
  }

 private:
  [[noreturn]] void fail(std::string where, std::string found, std::string expected, std::string hint = "") const {
    throw Error({.file = file_,
                 .where = std::move(where),
                 .found = std::move(found),
                 .expected = std::move(expected),
                 .hint = std::move(hint)});
  }

  int size(const char* key, std::int64_t max) const { return static_cast<int>(object_.integer(key, 1, max)); }

  const Family& find_family() const {
    std::string supported;
    for (const Family& family : kFamilies)
      supported += (supported.empty() ? "" : ", ") + std::string(family.architecture);
    const std::string expected = "one of: " + supported;
    const auto it = config_.find("architectures");
    if (it == config_.end()) fail("architectures", "missing", expected);
    if (!it->is_array() || it->size() != 1 || !it->front().is_string())
      fail("architectures", "not a list of one name", expected);
    const auto name = it->front().get<std::string>();
    const auto row = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                  [&](const Family& f) { return name == f.architecture; });
    if (row == std::end(kFamilies)) fail("architectures", in_quotes(name) + " is not supported", expected);
    return *row;
  }

  void read_heads(ModelConfig& c) const {
    c.n_heads = size("num_attention_heads", kMaxHeads);
    c.n_kv_heads = size("num_key_value_heads", kMaxHeads);
    if (c.n_heads % c.n_kv_heads != 0) {
      fail("num_key_value_heads", std::to_string(c.n_kv_heads),
           "a divisor of num_attention_heads " + std::to_string(c.n_heads));
    }
    if (object_.has("head_dim")) {
      c.head_dim = size("head_dim", kMaxHeadDim);
    } else if (c.hidden_size % c.n_heads != 0) {
      fail("hidden_size", std::to_string(c.hidden_size),
           "a multiple of num_attention_heads " + std::to_string(c.n_heads) + " where head_dim is missing");
    } else {
      c.head_dim = c.hidden_size / c.n_heads;
    }
    if (c.head_dim % 2 != 0) fail("head_dim", std::to_string(c.head_dim), "an even number (rotary pairs)");
  }

  /// Both styles: `rope_parameters` {rope_type, rope_theta}; `rope_theta` beside `rope_scaling` {type or rope_type}.
  void read_rope(ModelConfig& c) const {
    constexpr double kMin = 1, kMax = 1e12;
    c.rope_theta = object_.number_or("rope_theta", c.rope_theta, kMin, kMax);
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
      if (!object_.has(key)) continue;
      const JsonObject rope(config_[key], file_, key);
      const std::string kind = rope.text_or("rope_type", rope.text_or("type", "default"));
      if (kind != "default") fail(key, in_quotes(kind) + " is not supported", "\"default\" or null");
      c.rope_theta = rope.number_or("rope_theta", c.rope_theta, kMin, kMax);
      if (rope.number_or("partial_rotary_factor", 1, 0, 1) != 1)
        fail(std::string(key) + ".partial_rotary_factor", "not 1", "1");
    }
    if (object_.number_or("partial_rotary_factor", 1, 0, 1) != 1) fail("partial_rotary_factor", "not 1", "1");
  }

  /// Settings that would change the result and that the model here does not have: refused rather than ignored.
  void refuse_what_is_not_computed() const {
    if (object_.has("quantization_config")) {
      fail("quantization_config", "quantized weights are not supported", "null", "use the model's unquantized weights");
    }
    for (const char* key : {"attention_bias", "use_sliding_window"}) {
      if (object_.boolean_or(key, false)) fail(key, "true is not supported", "false");
    }
    const std::string act = object_.text_or("hidden_act", "silu");
    if (act != "silu") fail("hidden_act", in_quotes(act) + " is not supported", "\"silu\"");
    if (!object_.has("layer_types")) return;
    const json& types = config_["layer_types"];
    if (!types.is_array()) fail("layer_types", "not a list", "a list of text");
    for (const json& type : types) {
      if (type != "full_attention")
        fail("layer_types", "a kind of layer that is not supported", "\"full_attention\" in every layer");
    }
  }

  std::string read_dtype() const {
    const char* key = object_.has("dtype") ? "dtype" : "torch_dtype";
    std::string name = object_.text_or(key, "float32");
    if (name.starts_with("torch.")) name.erase(0, 6);
    constexpr const char* kKnown[] = {"float32", "float16", "bfloat16"};
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown)) {
      fail(key, in_quotes(name) + " is not supported", "\"float32\", \"float16\" or \"bfloat16\"");
    }
    return name;
  }

  const json& config_;
  std::string file_;
  JsonObject object_;
};

}  // namespace

ModelConfig ModelConfig::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  const json config = read_json(path);
  ModelConfig c = Reader(config, path.string()).read();
  const std::filesystem::path generation = folder / "generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(generation, error)) return c;
  // What generation ends at is said here, where both say it: chat models add their end-of-turn token.
  const json settings = read_json(generation);
  const JsonObject object(settings, generation.string());
  if (object.has("eos_token_id")) c.eos_ids = Reader::token_ids(object, "eos_token_id", c.vocab_size);
  return c;
}

}  // namespace kvscope
