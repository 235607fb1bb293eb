#include "engine/core/files/gate/gate_config.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/core/files/gate/gate_kinds.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr int kMaxFileTokens = 1 << 30, kMaxHidden = 1 << 16, kMaxKernel = 4095;
constexpr double kMaxNumber = 1e9;

/// Calls f(key, field, min, max) for every number of `c`; booleans and words have no range.
template <class Config, class F>
void visit_fields(Config& c, const F& f) {
  f("delay", c.delay, 0, kMaxFileTokens);
  f("window", c.window, 0, kMaxFileTokens);
  f("n_sink", c.n_sink, 0, kMaxFileTokens);
  f("pool_interval", c.pool_interval, 0, 4096);
  f("n_hidden", c.n_hidden, 0, kMaxHidden);
  f("kernel", c.kernel, 1, kMaxKernel);
  f("activation", c.activation, 0, 0);
  f("norm_eps", c.norm_eps, 1e-12, 0.1);
  f("soft_cap", c.soft_cap, 0, 1e6);
  f("guarded", c.guarded, 0, 0);
  f("feature_map", c.mlstm.feature_map, 0, 0);
  f("head_norm", c.mlstm.head_norm, 0, 0);
  f("cached_values", c.mlstm.cached_values, 0, 0);
  f("skip", c.mlstm.skip, 0, 0);
  f("scale", c.scale, -kMaxNumber, kMaxNumber);
  f("offset", c.offset, -kMaxNumber, kMaxNumber);
  f("negated", c.negated, 0, 0);
  f("sigmoid", c.sigmoid, 0, 0);
  f("threshold", c.threshold, -kMaxNumber, kMaxNumber);
  f("strict", c.strict, 0, 0);
  f("per_layer", c.per_layer, 0, 0);
}

void read_field(const JsonObject& json, const char* key, int& field, int min, int max) {
  field = static_cast<int>(json.integer_or(key, field, min, max));
}
void read_field(const JsonObject& json, const char* key, double& field, double min, double max) {
  field = json.number_or(key, field, min, max);
}
void read_field(const JsonObject& json, const char* key, bool& field, int, int) { field = json.boolean_or(key, field); }
constexpr const char* kActivations[] = {"identity", "silu", "gelu"};  // by their numbers
constexpr const char* kFeatureMaps[] = {"hedgehog", "softmax"};

template <typename Word, std::size_t kWords>
void read_word(const JsonObject& json, const char* key, Word& field, const char* const (&words)[kWords],
               const char* expected) {
  const std::string name = json.text_or(key, words[static_cast<int>(field)]);
  const auto found = std::find(std::begin(words), std::end(words), name);
  if (found == std::end(words))
    throw Error({.file = json.file(), .where = key, .found = in_quotes(name, 40), .expected = expected});
  field = static_cast<Word>(found - std::begin(words));
}
void read_field(const JsonObject& json, const char* key, Activation& field, int, int) {
  read_word(json, key, field, kActivations, "silu, gelu or identity");
}
void read_field(const JsonObject& json, const char* key, FeatureMap& field, int, int) {
  read_word(json, key, field, kFeatureMaps, "hedgehog or softmax");
}

template <typename Field>
const Field& as_json(const Field& field) {
  return field;
}
const char* as_json(Activation activation) { return kActivations[static_cast<int>(activation)]; }
const char* as_json(FeatureMap map) { return kFeatureMaps[static_cast<int>(map)]; }

GateKind read_kind(const JsonObject& json) {
  const std::string name = json.text("kind");
  if (const auto kind = gate_kind_of(name)) return *kind;
  std::string all;
  for (const GateKindInfo& row : gate_kinds()) all += (all.empty() ? "" : ", ") + std::string(row.name);
  throw Error({.file = json.file(), .where = "kind", .found = "unknown kind " + in_quotes(name, 40), .expected = all});
}

void check_together(const GateConfig& c, const JsonObject& json) {
  const auto fail = [&](const char* key, std::string found, std::string expected) {
    throw Error({.file = json.file(), .where = key, .found = std::move(found), .expected = std::move(expected)});
  };
  if (c.kernel % 2 == 0)
    fail("kernel", std::to_string(c.kernel), "an odd number: the same number of tokens before and after");
  const GateKindInfo& kind = info_of(c.kind);
  if (c.kernel > 1 && kind.convolved.empty()) {
    fail("kernel", std::to_string(c.kernel), std::string("1: ") + kind.name + " has no convolution");
  }
  if (c.kernel > 1 && c.delay != c.kernel / 2) {
    fail("delay", std::to_string(c.delay),
         std::to_string(c.kernel / 2) + ", what a kernel of " + std::to_string(c.kernel) + " sees after a token");
  }
  if (c.delay > c.window) {
    fail("delay", "a delay of " + std::to_string(c.delay) + " tokens in a window of " + std::to_string(c.window),
         "a score that exists by the time the token leaves the window");
  }
  if (c.kind == GateKind::kvpop_mlstm && c.sigmoid) {
    fail("sigmoid", "true", "false: the mLSTM's score has no sigmoid; KVpop's decay is added to it directly");
  }
  for (const auto& [key, changed] : {std::pair{"feature_map", c.mlstm.feature_map != FeatureMap::hedgehog},
                                     {"head_norm", c.mlstm.head_norm},
                                     {"cached_values", c.mlstm.cached_values},
                                     {"skip", !c.mlstm.skip}}) {
    if (changed && c.kind != GateKind::kvpop_mlstm)
      fail(key, "a setting of kvpop_mlstm", std::string("none of these for ") + kind.name);
  }
  if (c.n_hidden > 0 && kind.hidden == GateKindInfo::Hidden::none) {
    fail("n_hidden", std::to_string(c.n_hidden), std::string("0: ") + kind.name + " has no hidden layer");
  }
}

}  // namespace

bool has_hidden_layer(const GateConfig& c) {
  using Hidden = GateKindInfo::Hidden;
  const Hidden hidden = info_of(c.kind).hidden;
  return hidden == Hidden::always || (hidden == Hidden::optional && c.n_hidden > 0);
}

GateConfig read_gate_config(const JsonObject& json, const std::set<std::string>& others) {
  GateConfig config = default_gate_config(read_kind(json));
  std::set<std::string> known = others;
  known.insert("kind");
  visit_fields(config, [&](const char* key, auto& field, auto min, auto max) {
    known.insert(key);
    read_field(json, key, field, min, max);
  });
  for (const auto& [key, value] : json.raw().items()) {
    if (known.contains(key)) continue;
    refuse(json.file(), escape_for_terminal(key, 60), "an unknown key", "a gate setting; see docs/reference/gates.md");
  }
  if (config.kernel > 1 && !json.has("delay")) config.delay = config.kernel / 2;
  check_together(config, json);
  return config;
}

void check_kernel(const GateConfig& config, const std::string& file) {
  if (config.kernel == 1 || has_hidden_layer(config)) return;
  throw Error({.file = file,
               .where = "kernel",
               .found = std::to_string(config.kernel) + " in a predictor without a hidden layer",
               .expected = "1, or n_hidden units for the convolution"});
}

nlohmann::ordered_json gate_config_json(const GateConfig& config) {
  nlohmann::ordered_json json = {{"kind", name_of(config.kind)}};
  visit_fields(config, [&](const char* key, const auto& field, auto, auto) { json[key] = as_json(field); });
  if (config.kernel == 1) json.erase("kernel");  // the hash of a gate without one is what it was before there were any
  if (config.pool_interval == 0) json.erase("pool_interval");  // as with gates from before there were pools
  const MlstmVariant usual;                                    // likewise
  if (config.mlstm.feature_map == usual.feature_map) json.erase("feature_map");
  if (config.mlstm.head_norm == usual.head_norm) json.erase("head_norm");
  if (config.mlstm.cached_values == usual.cached_values) json.erase("cached_values");
  if (config.mlstm.skip == usual.skip) json.erase("skip");
  return json;
}

}  // namespace kvscope
