#include "engine/core/files/weights/lora_config.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "engine/core/files/weights/lora_keys.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr int kMaxRank = 4096, kMaxLayer = 100000;
constexpr double kMaxAlpha = 1e6;
constexpr std::size_t kMostNames = 4096;

bool ends_with_part(std::string_view module, std::string_view name) {
  return module.size() > name.size() && module.ends_with(name) && module[module.size() - name.size() - 1] == '.';
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<std::string_view> parts_of(std::string_view module) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= module.size();) {
    const std::size_t dot = std::min(module.find('.', at), module.size());
    parts.push_back(module.substr(at, dot - at));
    at = dot + 1;
  }
  return parts;
}

std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  return digits && error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// PEFT's reading of a layer's number: the first part that is one and is followed by another, after a part of one of
/// these names; without names, after any two parts.
std::optional<int> layer_of(std::string_view module, const std::vector<std::string>& names) {
  const std::vector<std::string_view> parts = parts_of(module);
  if (names.empty()) {
    for (std::size_t i = 2; i + 1 < parts.size(); ++i) {
      if (const auto number = number_of(parts[i])) return number;
    }
  }
  for (const std::string& name : names) {
    for (std::size_t i = 0; i + 2 < parts.size(); ++i) {
      if (parts[i] != name) continue;
      if (const auto number = number_of(parts[i + 1])) return number;
    }
  }
  return std::nullopt;
}

}  // namespace

LoraConfig::LoraConfig(const nlohmann::json& json, const std::string& file) : file_(file) {
  check_lora_keys(json, file);
  const JsonObject config(json, file);
  base_ = config.text_or("base_model_name_or_path", "");
  // null is no default: PEFT fails on it.
  rank_ = json.contains("r") ? static_cast<int>(config.integer("r", 1, kMaxRank)) : 8;
  alpha_ = json.contains("lora_alpha") ? config.number("lora_alpha", 0, kMaxAlpha) : 8;
  rslora_ = config.boolean_or("use_rslora", false);
  const auto init = json.find("init_lora_weights");
  random_ = init != json.end() && (*init == false || init->is_null());
  const std::string targets = json.contains("target_modules") && json["target_modules"].is_string()
                                  ? lower(json["target_modules"].get<std::string>())
                                  : "";
  all_linear_ = targets == "all-linear";
  if (!all_linear_) targets_ = modules(json, "target_modules");
  excluded_ = modules(json, "exclude_modules");
  if (targets_.names.empty() && !targets_.pattern && !all_linear_)
    refuse(file, "target_modules", "none", "names of modules", "the adapter's card or training script lists them");
  read_layers(json);
  ranks_ = patterns(json, "rank_pattern", 1, true);
  alphas_ = patterns(json, "alpha_pattern", 0, false);
}

LoraConfig::Modules LoraConfig::modules(const nlohmann::json& json, const char* key) const {
  Modules modules;
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return modules;
  if (found->is_string()) {
    const std::string text = *found;
    if (!text.empty()) modules.pattern.emplace(text, ModulePattern::Match::whole, file_, key);
    return modules;
  }
  modules.names = JsonObject(json, file_).texts(key);
  if (modules.names.size() > kMostNames) refuse(file_, key, std::to_string(modules.names.size()) + " names", "4096");
  return modules;
}

LoraConfig::Patterns LoraConfig::patterns(const nlohmann::json& json, const char* key, double least, bool whole) const {
  Patterns patterns;
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return patterns;
  if (!found->is_object() || found->size() > kMostNames) refuse(file_, key, "not an object of patterns", "an object");
  const double most = whole ? kMaxRank : kMaxAlpha;
  const JsonObject values(*found, file_, key);
  for (const auto& [pattern, value] : found->items()) {
    const double number =
        whole ? static_cast<double>(values.integer(pattern, 1, kMaxRank)) : values.number(pattern, least, most);
    patterns.emplace_back(ModulePattern(pattern, ModulePattern::Match::end, file_, key), number);
  }
  return patterns;
}

void LoraConfig::read_layers(const nlohmann::json& json) {
  const JsonObject config(json, file_);
  const auto found = json.find("layers_to_transform");
  layers_names_ = config.texts("layers_pattern");
  if (found != json.end() && !found->is_null()) {
    const nlohmann::json list = found->is_array() ? *found : nlohmann::json::array({*found});
    std::set<int> layers;
    for (const nlohmann::json& one : list) {
      const nlohmann::json holder = {{"layers_to_transform", one}};
      layers.insert(static_cast<int>(JsonObject(holder, file_).integer("layers_to_transform", 0, kMaxLayer)));
    }
    if (!list.empty()) layers_ = layers;
    if (targets_.names.empty()) refuse(file_, "layers_to_transform", "set", "null together with a pattern of modules");
  }
  for (const std::string& name : layers_names_) {
    const bool plain = std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (name.empty() || !plain) refuse(file_, "layers_pattern", in_quotes(name), "a plain name, such as layers");
  }
  if (!layers_names_.empty() && (found == json.end() || found->is_null()))
    refuse(file_, "layers_pattern", "set", "layers_to_transform with it");
}

bool LoraConfig::Modules::has(const std::string& module) const {
  if (pattern) return pattern->matches(module);
  return std::ranges::any_of(names,
                             [&](const std::string& name) { return module == name || ends_with_part(module, name); });
}

bool LoraConfig::targets(const std::string& module) const {
  if (excluded_.has(module)) return false;
  if (all_linear_) return module.ends_with("_proj");
  if (!targets_.has(module)) return false;
  const bool by_layer = layers_ && std::ranges::find(targets_.names, module) == targets_.names.end();
  const std::optional<int> layer = by_layer ? layer_of(module, layers_names_) : std::nullopt;
  return !by_layer || (layer && layers_->contains(*layer));
}

double LoraConfig::value(const Patterns& patterns, const char* key, const std::string& module, double fallback) const {
  std::optional<double> found;
  for (const auto& [pattern, number] : patterns) {
    if (!pattern.matches(module)) continue;
    if (found && *found != number)
      refuse(file_, key, "two values for " + in_quotes(module), "one", "use one pattern for these modules");
    found = number;
  }
  return found.value_or(fallback);
}

int LoraConfig::rank(const std::string& module) const {
  return static_cast<int>(value(ranks_, "rank_pattern", module, rank_));
}

double LoraConfig::scale(const std::string& module) const {
  const double r = rank(module);
  return value(alphas_, "alpha_pattern", module, alpha_) / (rslora_ ? std::sqrt(r) : r);
}

std::size_t LoraConfig::states() const {
  std::size_t states = 1;
  for (const Modules* modules : {&targets_, &excluded_})
    states += modules->pattern ? modules->pattern->states() : modules->names.size();
  for (const Patterns* patterns : {&ranks_, &alphas_}) {
    for (const auto& [pattern, number] : *patterns) states += pattern.states();
  }
  return states;
}

}  // namespace kvscope
