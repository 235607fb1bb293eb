#include "engine/jobs/train/recipe.h"

#include <set>

#include "engine/jobs/train/recipe_section.h"

namespace kvscope::engine {
namespace {

ModelConfig parse_model(const nlohmann::json& json, const std::string& file) {
  const RecipeSection section(json, "model", file,
                              {"layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocabulary", "rope_theta"});
  ModelConfig model;
  model.n_layers = section.integer("layers", 6, 1, 256);
  model.hidden_size = section.integer("hidden", 256, 8, 16384);
  model.n_heads = section.integer("heads", 8, 1, 256);
  model.n_kv_heads = section.integer("kv_heads", 4, 1, 256);
  model.head_dim = section.integer("head_dim", 64, 8, 256);
  model.intermediate_size = section.integer("ffn", 768, 8, 65536);
  model.vocab_size = section.integer("vocabulary", 4096, 260, 65536);  // the corpus stores 16 bits a token
  model.set_family(*find_family("Qwen3ForCausalLM"));
  const double theta = section->number_or("rope_theta", 10000, 1, 1e9);
  for (LayerConfig& layer : model.layers) layer.rope_theta = theta;
  model.tie_word_embeddings = true;
  model.dtype = "bfloat16";
  model.eos_ids = {0};
  if (model.n_heads % model.n_kv_heads != 0) {
    recipe_error(file, "model.kv_heads", std::to_string(model.n_kv_heads), "a divisor of heads");
  }
  if (model.head_dim % 2 != 0) recipe_error(file, "model.head_dim", std::to_string(model.head_dim), "an even number");
  return model;
}

TextOptions parse_text(const nlohmann::json& json, const std::string& file, double& heldout_share) {
  const RecipeSection section(json, "data", file, {"kind", "length", "facts_share", "max_facts", "heldout_share"});
  TextOptions text;
  text.length = section.integer("length", text.length, 16, 1 << 20);
  text.facts_share = section->number_or("facts_share", text.facts_share, 0, 1);
  text.max_facts = section.integer("max_facts", text.max_facts, 1, 100);
  heldout_share = section->number_or("heldout_share", heldout_share, 0.001, 0.9);
  return text;
}

SequenceOptions parse_data(const nlohmann::json& json, const std::string& file, double& heldout_share) {
  const RecipeSection section(json, "data", file,
                              {"kind", "length", "slots", "reversals", "min_numbers", "max_numbers", "min_facts",
                               "max_facts", "heldout_share"});
  SequenceOptions data;
  data.length = section.integer("length", data.length, 16, 65536);
  data.n_slots = section.integer("slots", data.n_slots, 2, 1000);
  data.n_reversals = section.integer("reversals", data.n_reversals, 0, 100);
  data.min_numbers = section.integer("min_numbers", data.min_numbers, 1, 1000);
  data.max_numbers = section.integer("max_numbers", data.max_numbers, data.min_numbers, 1000);
  data.min_facts = section.integer("min_facts", data.min_facts, 0, 300);
  data.max_facts = section.integer("max_facts", data.max_facts, data.min_facts, 300);
  heldout_share = section->number_or("heldout_share", heldout_share, 0.001, 0.9);
  return data;
}

PalindromeOptions parse_palindrome(const nlohmann::json& json, const std::string& file) {
  const RecipeSection section(json, "data", file, {"kind", "length", "numbers"});
  PalindromeOptions data;
  data.length = section.integer("length", data.length, 16, 65536);
  data.numbers = section.integer("numbers", data.numbers, 0, 1000);
  return data;
}

BaseOptions parse_base(const nlohmann::json& json, const std::string& file) {
  const RecipeSection section(
      json, "base", file,
      phase_keys({"steps", "max_seconds", "micro_batch", "weight_text", "weight_statement", "weight_answer"}));
  BaseOptions base;
  base.length = parse_length(section);
  parse_phase(section, base);
  base.micro_batch = section.integer("micro_batch", base.batch, 1, base.batch);
  base.weights = parse_loss_weights(section, base.weights);
  if (base.batch % base.micro_batch != 0) {
    recipe_error(file, "base.micro_batch", std::to_string(base.micro_batch), "a divisor of batch");
  }
  return base;
}

/// Whether kvpop_scorer.json can say it, which stands beside a model that was trained with it.
bool has_file_of_its_own(const ScorerOptions& scorer) {
  return scorer.kind == GateKind::kvpop_mlstm && scorer.delay == scorer.window && !scorer.decay && !scorer.adapter;
}

}  // namespace

Recipe Recipe::parse(const nlohmann::json& json, const std::string& file, const ModelConfig* base) {
  if (!json.is_object()) recipe_error(file, "recipe", json.type_name(), "an object");
  static const std::set<std::string> kSections = {"name", "note", "seed", "model", "data", "base", "scorer", "gate"};
  for (const auto& [name, value] : json.items()) {
    if (!kSections.contains(name)) {
      recipe_error(file, name, "an unknown key", "name, note, seed, model, data, base, scorer or gate");
    }
    if (value.is_null()) recipe_error(file, name, "null", "a value, or leave out the key");
  }
  const JsonObject top(json, file);
  Recipe recipe;
  recipe.name = top.text("name");
  top.text_or("note", "");
  recipe.seed = static_cast<std::uint64_t>(top.integer_or("seed", 1, 0, INT64_MAX));
  const std::string kind = json.contains("data") && json.at("data").is_object()
                               ? JsonObject(json.at("data"), file, "data").text_or("kind", "tasks")
                               : "tasks";
  if (kind != "tasks" && kind != "text" && kind != "palindrome")
    recipe_error(file, "data.kind", kind, "tasks, text or palindrome");
  if (kind == "palindrome") {
    recipe.palindrome = parse_palindrome(json, file);
  } else if (kind == "text") {
    recipe.text = parse_text(json, file, recipe.heldout_share);
  } else {
    recipe.data = parse_data(json, file, recipe.heldout_share);
  }
  if (json.contains("gate")) recipe.gate = parse_gate(json, file, recipe.length());
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
  if (json.contains("scorer") || (base == nullptr && !from_nothing)) {
    recipe.scorer = parse_scorer(json, file, recipe.length());
  }
  if (base == nullptr && recipe.scorer && !has_file_of_its_own(*recipe.scorer)) {
    recipe_error(file, "scorer", "a network other than the delayed mLSTM, a decay or an adapter",
                 "none of these: the model's own scorer is a delayed mLSTM");
  }
  return recipe;
}

}  // namespace kvscope::engine
