// The section "probe" of a recipe.

#include <algorithm>

#include "engine/core/study/table/gate_probe.h"
#include "engine/jobs/train/recipe_section.h"

namespace kvscope::engine {
namespace {

/// The most steps of a phase that trains a gate.
std::int64_t most_steps(const Recipe& recipe) {
  std::int64_t most = 0;
  if (recipe.scorer) most = recipe.scorer->length.steps;
  if (recipe.kvzap) most = std::max(most, recipe.kvzap->length.steps);
  for (std::size_t i = 0; recipe.gate && i < recipe.gate->stages.size(); ++i)
    most = std::max(most, recipe.gate->stages[i].length.steps);
  return most;
}

}  // namespace

std::optional<ProbeOptions> parse_probe(const nlohmann::json& json, const std::string& file, const Recipe& recipe) {
  const nlohmann::json& raw = json.at("probe");
  if (raw == false) return std::nullopt;
  const nlohmann::json holder = {{"probe", raw == true ? nlohmann::json::object() : raw}};
  ProbeOptions probe;
  probe.tokens = std::min(probe.tokens, recipe.length());
  const RecipeSection section(holder, "probe", file, probe, {"text", "file", "tokens"});
  probe.text = section->text_or("text", "");
  const std::string name = section->text_or("file", "");
  if (!name.empty()) probe.file = std::filesystem::path(file).parent_path() / name;
  if (!name.empty() && !probe.text.empty())
    recipe_error(file, "probe.file", "a text as well", "only one of them; without both, held-out text of the data");
  if (!recipe.scorer && !recipe.gate && !recipe.kvzap)
    recipe_error(file, "probe", "no scorer and no gate",
                 "a section scorer or gate: a probe is scored by what it trains");
  const int least = recipe.probe_delay() + 1;
  probe.tokens = section.integer("tokens", std::max(probe.tokens, least), least, std::max(least, recipe.length()));
  const std::int64_t n_probes = most_steps(recipe) / probe.every + 2;
  const std::int64_t each = std::int64_t{recipe.model.n_layers} * recipe.model.n_kv_heads * probe.tokens;
  if (n_probes > kMostProbeScores / each)
    recipe_error(file, "probe.every", std::to_string(n_probes) + " probes of " + std::to_string(each) + " scores",
                 std::to_string(kMostProbeScores) + " scores at most: raise every, or lower tokens");
  return probe;
}

}  // namespace kvscope::engine
