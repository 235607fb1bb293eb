#include "engine/jobs/train/recipe.h"

#include <algorithm>
#include <set>

#include "engine/jobs/train/recipe_section.h"

namespace kvscope::engine {
namespace {

ModelConfig parse_model(const nlohmann::json& json, const std::string& file) {
  RecipeModel of;
  const RecipeSection section(json, "model", file, of);
  ModelConfig model;
  model.n_layers = of.layers;
  model.hidden_size = of.hidden;
  model.n_heads = of.heads;
  model.n_kv_heads = of.kv_heads;
  model.head_dim = of.head_dim;
  model.intermediate_size = of.ffn;
  model.vocab_size = of.vocabulary;
  model.set_family(*find_family("Qwen3ForCausalLM"));
  for (LayerConfig& layer : model.layers) layer.rope_theta = of.rope_theta;
  model.tie_word_embeddings = true;
  model.dtype = "bfloat16";
  model.eos_ids = {0};
  if (model.n_heads % model.n_kv_heads != 0) {
    recipe_error(file, "model.kv_heads", std::to_string(model.n_kv_heads), "a divisor of heads");
  }
  if (model.head_dim % 2 != 0) recipe_error(file, "model.head_dim", std::to_string(model.head_dim), "an even number");
  return model;
}

/// The section "data": `options` of its kind, and the share of a corpus that is held out, if it reads one.
template <typename Options>
Options data_of(const nlohmann::json& json, const std::string& file, double* heldout_share) {
  Options options;
  std::set<std::string> more = {"kind"};
  if (heldout_share) more.insert("heldout_share");
  const RecipeSection section(json, "data", file, options, more);
  if (heldout_share) *heldout_share = section->number_or("heldout_share", *heldout_share, 0.001, 0.9);
  return options;
}

BaseOptions parse_base(const nlohmann::json& json, const std::string& file) {
  BaseOptions base;
  const RecipeSection section(json, "base", file, base, {"steps", "max_seconds", "micro_batch"});
  base.length = parse_length(section);
  base.micro_batch = section.integer("micro_batch", base.batch, 1, base.batch);
  if (base.batch % base.micro_batch != 0) {
    recipe_error(file, "base.micro_batch", std::to_string(base.micro_batch), "a divisor of batch");
  }
  return base;
}

/// The text under `key` of section `of`, where both are there.
std::string text_in(const nlohmann::json& json, const char* of, const char* key, const std::string& file,
                    const char* fallback) {
  if (!json.contains(of) || !json.at(of).is_object()) return fallback;
  return JsonObject(json.at(of), file, of).text_or(key, fallback);
}

/// The section "data".
void parse_data(const nlohmann::json& json, const std::string& file, Recipe& recipe) {
  const std::string kind = text_in(json, "data", "kind", file, "tasks");
  if (kind == "tasks") {
    recipe.data = data_of<SequenceOptions>(json, file, &recipe.heldout_share);
  } else if (kind == "text") {
    recipe.text = data_of<TextOptions>(json, file, &recipe.heldout_share);
  } else if (kind == "repeat") {
    recipe.repeat = data_of<RepeatOptions>(json, file, &recipe.heldout_share);
  } else if (kind == "palindrome") {
    recipe.palindrome = data_of<PalindromeOptions>(json, file, nullptr);
  } else {
    recipe_error(file, "data.kind", kind, "tasks, text, repeat or palindrome");
  }
}

/// The section "gate".
void parse_gates(const nlohmann::json& json, const std::string& file, Recipe& recipe) {
  if (text_in(json, "gate", "method", file, "") != kKvzapMethod) {
    recipe.gate = parse_gate(json, file, recipe.length());
    return;
  }
  recipe.kvzap = parse_kvzap(json, file);
  if (!recipe.repeat) {
    recipe_error(file, "data.kind", text_in(json, "data", "kind", file, "tasks"),
                 "repeat: method kvzap learns from a text that is repeated");
  }
}

/// Whether kvpop_scorer.json can say it, which stands beside a model that was trained with it.
bool has_file_of_its_own(const ScorerOptions& scorer) {
  return scorer.kind == GateKind::kvpop_mlstm && scorer.mlstm == MlstmVariant() && scorer.delay == scorer.window &&
         !scorer.decay && !scorer.trains_base();
}

}  // namespace

Recipe Recipe::parse(const nlohmann::json& json, const std::string& file, const ModelConfig* base) {
  if (!json.is_object()) recipe_error(file, "recipe", json.type_name(), "an object");
  static const std::set<std::string> kSections = {"name", "note",  "seed",   "model", "data",
                                                  "base", "probe", "scorer", "gate"};
  for (const auto& [name, value] : json.items()) {
    if (!kSections.contains(name)) {
      recipe_error(file, name, "an unknown key", "name, note, seed, model, data, base, probe, scorer or gate");
    }
    if (value.is_null()) recipe_error(file, name, "null", "a value, or leave out the key");
  }
  const JsonObject top(json, file);
  Recipe recipe;
  recipe.name = top.text("name");
  top.text_or("note", "");
  recipe.seed = static_cast<std::uint64_t>(top.integer_or("seed", 1, 0, INT64_MAX));
  parse_data(json, file, recipe);
  if (json.contains("gate")) parse_gates(json, file, recipe);
  const bool from_nothing = base == nullptr && recipe.gate && recipe.gate->all_weights && !json.contains("base");
  if (base == nullptr) {
    recipe.model = parse_model(json, file);
    recipe.model.max_positions = recipe.length();
    if (!from_nothing) recipe.base = parse_base(json, file);
  } else {
    for (const char* section : {"model", "base"}) {
      if (json.contains(section)) recipe_error(file, section, "a section", "none, because --base gives the model");
    }
    recipe.model = *base;
    if (recipe.length() > base->max_positions) {
      recipe_error(file, "data.length", std::to_string(recipe.length()),
                   "at most the base's context of " + std::to_string(base->max_positions));
    }
  }
  if (from_nothing && json.contains("scorer")) {
    recipe_error(file, "scorer", "a section", "none: gate.all_weights trains the model together with the gate");
  }
  if (json.contains("scorer")) recipe.scorer = parse_scorer(json, file, recipe.length());
  if (base == nullptr && recipe.scorer && !has_file_of_its_own(*recipe.scorer)) {
    recipe_error(file, "scorer",
                 "a network other than the delayed mLSTM, a variant of it, a decay, an adapter or all_weights",
                 "none of these: the model's own scorer is a delayed mLSTM");
  }
  if (json.contains("probe")) recipe.probe = parse_probe(json, file, recipe);
  return recipe;
}

int Recipe::probe_delay() const {
  const int of_scorer = scorer ? scorer->delay : 0;
  const int of_gate = !gate ? 0 : gate->kernel > 1 ? gate->kernel / 2 : gate->method == "dms" ? 1 : 0;
  return std::max(of_scorer, of_gate);
}

}  // namespace kvscope::engine
