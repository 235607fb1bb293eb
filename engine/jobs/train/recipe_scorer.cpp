// The section "scorer" of a recipe.

#include <algorithm>

#include "engine/jobs/train/recipe_section.h"

namespace kvscope::engine {
namespace {

MarginWeight parse_margin(const std::string& text, const std::string& file) {
  if (text == "none") return MarginWeight::none;
  if (text == "sigmoid") return MarginWeight::sigmoid;
  if (text == "proportional") return MarginWeight::proportional;
  recipe_error(file, "scorer.margin", text, "none, sigmoid or proportional");
}

std::vector<int> parse_top_k(const RecipeSection& section, const std::string& file, int most) {
  std::vector<int> list;
  const auto& raw = section->raw();
  if (!raw.contains("top_k") || !raw.at("top_k").is_array() || raw.at("top_k").empty()) {
    recipe_error(file, "scorer.top_k", "nothing", "a list of long-range budgets");
  }
  for (const auto& entry : raw.at("top_k")) {
    if (!entry.is_number_integer() || entry.get<std::int64_t>() < 1 || entry.get<std::int64_t>() > most) {
      recipe_error(file, "scorer.top_k", entry.dump(), "integers in [1, " + std::to_string(most) + "]");
    }
    list.push_back(entry.get<int>());
  }
  return list;
}

FutureMass parse_mass(const std::string& text, const std::string& file) {
  if (text == "mean") return FutureMass::mean;
  if (text == "sum") return FutureMass::sum;
  if (text == "rms") return FutureMass::rms;
  if (text == "max") return FutureMass::max;
  recipe_error(file, "scorer.mass", text, "mean, sum, rms or max");
}

TargetWeight parse_weight(const std::string& text, const std::string& file) {
  if (text == "mass") return TargetWeight::mass;
  if (text == "value") return TargetWeight::value;
  if (text == "output") return TargetWeight::output;
  recipe_error(file, "scorer.weight", text, "mass, value or output");
}

GateKind parse_scorer_kind(const std::string& text, const std::string& file) {
  if (text == "mlstm") return GateKind::kvpop_mlstm;
  if (text == "mlp") return GateKind::kvpop_mlp;
  if (text == "linear") return GateKind::kvpop_linear;
  recipe_error(file, "scorer.kind", text, "mlstm, mlp or linear");
}

/// What trains a scorer through the model, and what it must not be beside.
void parse_student(const RecipeSection& section, const std::string& file, ScorerOptions& scorer) {
  scorer.adapter = parse_adapter(section, file, "scorer");
  const auto only = [&](const char* key, const char* with, bool fits) {
    if (section->has(key) && !fits)
      recipe_error(file, std::string("scorer.") + key, std::string("no ") + with,
                   std::string("this key only with ") + with);
  };
  only("top_teacher", "adapter", scorer.adapter.has_value());
  only("lse", "adapter", scorer.adapter.has_value());
  scorer.top_teacher = section.integer("top_teacher", scorer.top_teacher, 0, 1 << 24);
  const std::string lse = section->text_or("lse", "dense");
  if (lse != "dense" && lse != "sparse") recipe_error(file, "scorer.lse", lse, "dense or sparse");
  scorer.sparse_lse = lse == "sparse";
  scorer.output_weight = section->number_or("output_weight", 0, 0, 1e6);
  scorer.output_after = section->integer_or("output_after", 0, 0, 100'000'000);
  const std::string capacity = section->text_or("capacity", "per-head");
  if (capacity != "per-head" && capacity != "pooled")
    recipe_error(file, "scorer.capacity", capacity, "per-head or pooled");
  scorer.pooled = capacity == "pooled";
  only("capacity", "adapter or output_weight", scorer.adapter || scorer.output_weight > 0);
  // Ages count differently in heads of different decay: what is last would change from query to query.
  if (scorer.pooled && scorer.decay) recipe_error(file, "scorer.capacity", "pooled", "per-head with a learned decay");
}

/// The network and its decay. What another kind has is refused rather than ignored.
void parse_network(const RecipeSection& section, const std::string& file, ScorerOptions& scorer) {
  const std::string is = section->text_or("kind", "mlstm");
  scorer.kind = parse_scorer_kind(is, file);
  const bool memory = scorer.kind == GateKind::kvpop_mlstm;
  const auto only = [&](const char* key, const char* kind, bool fits) {
    if (section->has(key) && !fits)
      recipe_error(file, std::string("scorer.") + key, std::string("a key of kind ") + kind, "none for kind " + is);
  };
  only("hidden", "mlp", scorer.kind == GateKind::kvpop_mlp);
  only("immediate", "mlstm", memory);
  only("soft_cap", "mlstm", memory);
  scorer.hidden = section.integer("hidden", scorer.hidden, 1, 1 << 16);
  scorer.soft_cap = section->number_or("soft_cap", 0, 0, 1e6);
  scorer.delay = memory && !section->boolean_or("immediate", false) ? scorer.window : 0;
  if (section->has("decay_min") || section->has("decay_max")) {
    DecayRange decay;
    decay.most = section->number_or("decay_max", decay.most, 1e-3, 1);
    decay.least = section->number_or("decay_min", std::min(decay.least, decay.most), 1e-3, decay.most);
    scorer.decay = decay;
  }
}

}  // namespace

ScorerOptions parse_scorer(const nlohmann::json& json, const std::string& file, int length) {
  const RecipeSection section(json, "scorer", file,
                              phase_keys({"steps",
                                          "max_seconds",
                                          "kind",
                                          "hidden",
                                          "immediate",
                                          "soft_cap",
                                          "decay_min",
                                          "decay_max",
                                          "mass",
                                          "weight",
                                          "sinks",
                                          "window",
                                          "top_k",
                                          "queries",
                                          "late_share",
                                          "temperature",
                                          "margin",
                                          "margin_min",
                                          "margin_temperature",
                                          "balance_min",
                                          "balance_max",
                                          "adapter",
                                          "top_teacher",
                                          "lse",
                                          "capacity",
                                          "output_weight",
                                          "output_after"}));
  ScorerOptions scorer;
  scorer.optimizer = {.beta2 = 0.999, .weight_decay = 0.01, .clip = 0, .warm_up = 50};
  scorer.batch = 16;
  scorer.heldout_sequences = 32;
  scorer.length = parse_length(section);
  parse_phase(section, scorer);
  scorer.mass = parse_mass(section->text_or("mass", "mean"), file);
  scorer.weight = parse_weight(section->text_or("weight", "mass"), file);
  scorer.n_sink = section.integer("sinks", scorer.n_sink, 0, length);
  scorer.window = section.integer("window", scorer.window, 1, length);
  parse_network(section, file, scorer);
  // At least one query must see a full cache and a newcomer: sinks + window + top_k < length.
  scorer.top_k = parse_top_k(section, file, std::max(0, length - 1 - scorer.n_sink - scorer.window));
  scorer.queries = section.integer("queries", scorer.queries, 1, 65536);
  scorer.late_share = section->number_or("late_share", scorer.late_share, 0, 1);
  scorer.temperature = section->number_or("temperature", scorer.temperature, 1e-3, 1e3);
  scorer.margin = parse_margin(section->text_or("margin", "sigmoid"), file);
  scorer.margin_min = section->number_or("margin_min", scorer.margin_min, 0, 1);
  scorer.margin_temperature = section->number_or("margin_temperature", scorer.margin_temperature, 1e-3, 1e3);
  scorer.balance_min = section->number_or("balance_min", scorer.balance_min, 0, 1);
  scorer.balance_max = section->number_or("balance_max", scorer.balance_max, 1, 1e6);
  parse_student(section, file, scorer);
  return scorer;
}

}  // namespace kvscope::engine
