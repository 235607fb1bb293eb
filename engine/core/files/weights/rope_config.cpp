#include "engine/core/files/weights/rope_config.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "engine/core/files/weights/kernel_limits.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/core/support/refuse.h"
#include "engine/core/support/unread_keys.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr double kMinTheta = 1, kMaxTheta = 1e12, kMaxFactor = 1e6, kMaxFilePositions = 1 << 30;

constexpr std::string_view kKnown[] = {"rope_theta",      "partial_rotary_factor",
                                       "rope_type",       "type",
                                       "factor",          "original_max_position_embeddings",
                                       "low_freq_factor", "high_freq_factor",
                                       "beta_fast",       "beta_slow",
                                       "mscale",          "mscale_all_dim",
                                       "truncate",        "attention_factor",
                                       "short_factor",    "long_factor",
                                       "finetuned"};  // of YaRN's first files: how they were made

struct KindName {
  const char* name;
  RopeKind kind;
};
constexpr KindName kKinds[] = {{"default", RopeKind::plain},
                               {"linear", RopeKind::linear},
                               {"llama3", RopeKind::llama3},
                               {"yarn", RopeKind::yarn},
                               {"longrope", RopeKind::longrope}};
constexpr const char *kPartial = "partial_rotary_factor", *kGlobal = "full_attention", *kLocal = "sliding_attention";

/// Of which heads and texts.
struct RopeOf {
  int max_positions, head_dim;
  bool partial;                      // whether part of a head's channels may turn (ModelFamily::partial_rotation)
  const char* kind = nullptr;        // kGlobal or kLocal where each has a rotation; null: one for all layers
  const char* theta = "rope_theta";  // the key beside rope_scaling
};

/// Channels of a head that turn: an even number of them. 0: all.
int rotated_channels(const JsonObject& object, const RopeOf& of) {
  const double share = object.number_or(kPartial, 1, 0, 1);
  if (share == 1) return 0;
  const int rotated = static_cast<int>(of.head_dim * share);
  if (of.partial && rotated > 0 && rotated % 2 == 0) return rotated;
  throw Error(
      {.file = object.file(),
       .where = kPartial,
       .found = of.partial ? std::to_string(rotated) + " of " + std::to_string(of.head_dim) + " channels" : "not 1",
       .expected = of.partial ? "an even number of channels" : "1"});
}

class RopeReader {
 public:
  RopeReader(const JsonObject& config, const json& section, const std::string& key)
      : config_(config), key_(key), rope_(section, config.file(), key) {}

  void read(const RopeOf& of, LayerConfig& layer, std::vector<std::string>& warnings) {
    if (auto line =
            unread_keys(rope_.raw(), kKnown, config_.file() + ": " + key_, "the model may compute something else"))
      warnings.push_back(std::move(*line));
    for (const char* kind : {kGlobal, kLocal}) {
      if (rope_.has(kind)) fail(kind, "a separate embedding for one kind of layer", "one for all layers");
    }
    layer.rope_theta = rope_.number_or("rope_theta", layer.rope_theta, kMinTheta, kMaxTheta);
    if (rope_.has(kPartial)) layer.rotated = rotated_channels(rope_, of);
    RopeScaling& scaling = layer.rope_scaling = {};
    scaling.kind = kind();
    if (scaling.kind == RopeKind::plain) return;
    if (scaling.kind == RopeKind::linear) {
      scaling.factor = rope_.number("factor", 1, kMaxFactor);
      return;
    }
    scaling.original_positions = original_positions(of.max_positions);
    scaling.factor = factor(scaling, of.max_positions);
    if (scaling.kind == RopeKind::llama3) return read_llama3(scaling);
    if (scaling.kind == RopeKind::yarn) return read_yarn(scaling, layer.rope_theta);
    // Its factor of cosine and sine is divided by the logarithm.
    if (scaling.original_positions == 1) fail("original_max_position_embeddings", "1", "more than 1 for longrope");
    read_longrope(scaling, of, (layer.rotated > 0 ? layer.rotated : of.head_dim) / 2, warnings);
  }

 private:
  [[noreturn]] void fail(const char* key, std::string found, std::string expected, std::string hint = "") const {
    refuse(config_.file(), key_ + "." + key, std::move(found), std::move(expected), std::move(hint));
  }

  RopeKind kind() const {
    std::string name = rope_.text_or("rope_type", rope_.text_or("type", "default"));
    if (name == "su") name = "longrope";  // its first name
    const auto row =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const KindName& k) { return name == k.name; });
    if (row != std::end(kKinds)) return row->kind;
    std::string known;
    for (const KindName& k : kKinds) known += (known.empty() ? "" : ", ") + std::string(k.name);
    fail("rope_type", in_quotes(name) + " is not supported", "one of: " + known, kOtherEngine);
  }

  /// YaRN's null, and of longrope without it: how many times longer the context became.
  double factor(const RopeScaling& scaling, int max_positions) const {
    const bool is_null = rope_.raw().contains("factor") && !rope_.has("factor");
    const bool follows =
        (scaling.kind == RopeKind::yarn && is_null) || (scaling.kind == RopeKind::longrope && !rope_.has("factor"));
    if (!follows) return rope_.number("factor", 1, kMaxFactor);
    const double factor = max_positions / scaling.original_positions;
    if (factor < 1) fail("factor", "null, but the context became shorter", "a number from 1");
    return factor;
  }

  /// Beside the section before inside it, as transformers has it; the context itself if neither says it.
  double original_positions(int max_positions) const {
    constexpr const char* kKey = "original_max_position_embeddings";
    return config_.number_or(kKey, rope_.number_or(kKey, max_positions, 1, kMaxFilePositions), 1, kMaxFilePositions);
  }

  void read_llama3(RopeScaling& scaling) const {
    scaling.low_freq_factor = rope_.number("low_freq_factor", 1e-3, kMaxFactor);
    scaling.high_freq_factor = rope_.number("high_freq_factor", 1e-3, kMaxFactor);
    if (scaling.high_freq_factor <= scaling.low_freq_factor)
      fail("high_freq_factor", "not above low_freq_factor", "the greater of the two");
  }

  void read_yarn(RopeScaling& scaling, double theta) const {
    if (theta == kMinTheta) fail("rope_theta", "1", "more than 1 for yarn");
    const auto or_default = [&](const char* key, double fallback) {  // 0 means the default there
      const double value = rope_.number_or(key, fallback, 0, kMaxFactor);
      return value == 0 ? fallback : value;
    };
    scaling.beta_fast = or_default("beta_fast", scaling.beta_fast);
    scaling.beta_slow = or_default("beta_slow", scaling.beta_slow);
    scaling.mscale = rope_.number_or("mscale", 0, 0, kMaxFactor);
    scaling.mscale_all_dim = rope_.number_or("mscale_all_dim", 0, 0, kMaxFactor);
    scaling.truncate = rope_.boolean_or("truncate", scaling.truncate);
    if (rope_.has("attention_factor")) scaling.attention_factor = rope_.number("attention_factor", 1e-3, kMaxFactor);
  }

  /// The engine has one set of frequencies: those for texts beyond the original context if the model's is longer.
  void read_longrope(RopeScaling& scaling, const RopeOf& of, int n_pairs, std::vector<std::string>& warnings) const {
    const bool is_long = of.max_positions > scaling.original_positions;
    const char* key = is_long ? "long_factor" : "short_factor";
    const json list = rope_.has(key) ? rope_.raw()[key] : json();
    const bool fits = list.is_array() && list.size() == static_cast<std::size_t>(n_pairs);
    if (!fits) fail(key, "not a list of " + std::to_string(n_pairs), "one number for each rotated pair");
    for (const json& factor : list) {
      const double value = factor.is_number() ? factor.get<double>() : 0;
      if (value < 1e-3 || value > kMaxFactor) fail(key, factor.dump(), "numbers above 0");
      scaling.factors.push_back(value);
    }
    if (rope_.has("attention_factor")) scaling.attention_factor = rope_.number("attention_factor", 1e-3, kMaxFactor);
    if (!is_long) return;
    char text[160];
    std::snprintf(text, sizeof text,
                  ": longrope: long_factor is used at every length; transformers uses short_factor up to %.0f tokens",
                  scaling.original_positions);
    warnings.push_back(config_.file() + text);
  }

  const JsonObject& config_;
  std::string key_;
  JsonObject rope_;
};

/// Whether rope_parameters has a section for a kind of layer.
bool names_kinds(const JsonObject& config) {
  const json section = config.has("rope_parameters") ? config.raw()["rope_parameters"] : json();
  return section.is_object() && (section.contains(kGlobal) || section.contains(kLocal));
}

/// Sets the layer's rope_theta, rope_scaling and rotated.
void read_rope(const JsonObject& config, const RopeOf& of, LayerConfig& layer, std::vector<std::string>& warnings) {
  const bool is_local = of.kind != nullptr && std::string_view(of.kind) == kLocal;
  layer.rope_theta = config.number_or(of.theta, layer.rope_theta, kMinTheta, kMaxTheta);
  layer.rotated = rotated_channels(config, of);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (is_local && std::string_view(key) == "rope_scaling") continue;
    json section = config.has(key) ? config.raw()[key] : json();
    std::string where = key;
    if (of.kind != nullptr && where == "rope_parameters" && section.is_object()) {
      section = section.value(of.kind, json());
      where += std::string(".") + of.kind;
    }
    if (section.is_null() || (section.is_object() && section.empty())) {
      // What is there and says nothing is plain, whatever the family has without it.
      if (config.raw().contains(key) && std::string_view(key) == "rope_parameters") layer.rope_scaling = {};
      continue;
    }
    return RopeReader(config, section, where).read(of, layer, warnings);
  }
}

}  // namespace

void read_rotations(const JsonObject& config, ModelConfig& c, LayerConfig& global, LayerConfig& local) {
  const ModelFamily& family = *c.family;
  const bool has_base = family.local_rope_theta > 0,
             by_kind = has_base || (!family.scales_local && names_kinds(config));
  read_rope(config, {c.max_positions, c.head_dim, family.partial_rotation, by_kind ? kGlobal : nullptr}, global,
            c.warnings);
  local = global;
  if (family.scales_local && !by_kind) return;
  local.rope_scaling = {};
  if (!by_kind) return;
  local.rope_theta = has_base ? family.local_rope_theta : family.layer.rope_theta;
  const char* theta = has_base ? "rope_local_base_freq" : "rope_theta";
  read_rope(config, {c.max_positions, c.head_dim, false, kLocal, theta}, local, c.warnings);
}

}  // namespace kvscope
