#include "engine/jobs/train/recipe.h"

#include <algorithm>
#include <set>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::engine {
namespace {

[[noreturn]] void fail(const std::string& file, const std::string& where, const std::string& found,
                       const std::string& expected) {
  throw Error({.file = file, .where = where, .found = found, .expected = expected});
}

/// One object of the recipe. A key that nothing reads is a misspelling: named, not ignored.
class Section {
 public:
  Section(const nlohmann::json& parent, const std::string& key, const std::string& file,
          const std::set<std::string>& known)
      : json_(parent.contains(key) ? parent.at(key) : nlohmann::json::object()), object_(json_, file, key) {
    if (!json_.is_object()) fail(file, key, json_.type_name(), "an object");
    for (const auto& [name, value] : json_.items()) {
      if (known.contains(name)) continue;
      std::string list;
      for (const auto& entry : known) list += (list.empty() ? "" : ", ") + entry;
      fail(file, key + "." + name, "an unknown key", "one of " + list);
    }
  }
  const JsonObject* operator->() const { return &object_; }
  int integer(const char* key, std::int64_t fallback, std::int64_t min, std::int64_t max) const {
    return static_cast<int>(object_.integer_or(key, fallback, min, max));
  }

 private:
  nlohmann::json json_;
  JsonObject object_;
};

/// The keys of a phase: its own, and those of parse_phase().
std::set<std::string> phase_keys(std::set<std::string> own) {
  own.insert({"batch", "learning_rate", "beta1", "beta2", "weight_decay", "clip", "warm_up", "final_share", "log_every",
              "heldout_sequences"});
  return own;
}

PhaseLength parse_length(const Section& section) {
  return {section->integer("steps", 0, 100'000'000), section->number_or("max_seconds", 0, 0, 1e7)};
}

void parse_phase(const Section& section, PhaseOptions& phase) {
  phase.batch = section.integer("batch", phase.batch, 1, 65536);
  phase.log_every = section.integer("log_every", phase.log_every, 1, 1'000'000);
  phase.heldout_sequences = section.integer("heldout_sequences", phase.heldout_sequences, 1, 65536);
  OptimizerOptions& options = phase.optimizer;
  options.learning_rate = section->number_or("learning_rate", options.learning_rate, 0, 1);
  options.beta1 = section->number_or("beta1", options.beta1, 0, 0.99999);
  options.beta2 = section->number_or("beta2", options.beta2, 0, 0.99999);
  options.weight_decay = section->number_or("weight_decay", options.weight_decay, 0, 10);
  options.clip = section->number_or("clip", options.clip, 0, 1e6);
  options.warm_up = section->integer_or("warm_up", options.warm_up, 0, 1'000'000);
  options.final_share = section->number_or("final_share", options.final_share, 0, 1);
}

ModelConfig parse_model(const nlohmann::json& json, const std::string& file) {
  const Section section(json, "model", file,
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
    fail(file, "model.kv_heads", std::to_string(model.n_kv_heads), "a divisor of heads");
  }
  if (model.head_dim % 2 != 0) fail(file, "model.head_dim", std::to_string(model.head_dim), "an even number");
  return model;
}

TextOptions parse_text(const nlohmann::json& json, const std::string& file, double& heldout_share) {
  const Section section(json, "data", file, {"kind", "length", "facts_share", "max_facts", "heldout_share"});
  TextOptions text;
  text.length = section.integer("length", text.length, 16, 1 << 20);
  text.facts_share = section->number_or("facts_share", text.facts_share, 0, 1);
  text.max_facts = section.integer("max_facts", text.max_facts, 1, 100);
  heldout_share = section->number_or("heldout_share", heldout_share, 0.001, 0.9);
  return text;
}

SequenceOptions parse_data(const nlohmann::json& json, const std::string& file, double& heldout_share) {
  const Section section(json, "data", file,
                        {"kind", "length", "slots", "reversals", "min_numbers", "max_numbers", "min_facts", "max_facts",
                         "heldout_share"});
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

BaseOptions parse_base(const nlohmann::json& json, const std::string& file) {
  const Section section(
      json, "base", file,
      phase_keys({"steps", "max_seconds", "micro_batch", "weight_text", "weight_statement", "weight_answer"}));
  BaseOptions base;
  base.length = parse_length(section);
  parse_phase(section, base);
  base.micro_batch = section.integer("micro_batch", base.batch, 1, base.batch);
  base.weights.text = static_cast<float>(section->number_or("weight_text", base.weights.text, 0, 1e6));
  base.weights.statement = static_cast<float>(section->number_or("weight_statement", base.weights.statement, 0, 1e6));
  base.weights.answer = static_cast<float>(section->number_or("weight_answer", base.weights.answer, 0, 1e6));
  if (base.batch % base.micro_batch != 0) {
    fail(file, "base.micro_batch", std::to_string(base.micro_batch), "a divisor of batch");
  }
  return base;
}

MarginWeight parse_margin(const std::string& text, const std::string& file) {
  if (text == "none") return MarginWeight::none;
  if (text == "sigmoid") return MarginWeight::sigmoid;
  if (text == "proportional") return MarginWeight::proportional;
  fail(file, "scorer.margin", text, "none, sigmoid or proportional");
}

std::vector<int> parse_top_k(const Section& section, const std::string& file, int most) {
  std::vector<int> list;
  const auto& raw = section->raw();
  if (!raw.contains("top_k") || !raw.at("top_k").is_array() || raw.at("top_k").empty()) {
    fail(file, "scorer.top_k", "nothing", "a list of long-range budgets");
  }
  for (const auto& entry : raw.at("top_k")) {
    if (!entry.is_number_integer() || entry.get<std::int64_t>() < 1 || entry.get<std::int64_t>() > most) {
      fail(file, "scorer.top_k", entry.dump(), "integers in [1, " + std::to_string(most) + "]");
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
  fail(file, "scorer.mass", text, "mean, sum, rms or max");
}

TargetWeight parse_weight(const std::string& text, const std::string& file) {
  if (text == "mass") return TargetWeight::mass;
  if (text == "value") return TargetWeight::value;
  if (text == "output") return TargetWeight::output;
  fail(file, "scorer.weight", text, "mass, value or output");
}

GateKind parse_scorer_kind(const std::string& text, const std::string& file) {
  if (text == "mlstm") return GateKind::kvpop_mlstm;
  if (text == "mlp") return GateKind::kvpop_mlp;
  if (text == "linear") return GateKind::kvpop_linear;
  fail(file, "scorer.kind", text, "mlstm, mlp or linear");
}

/// The key "adapter": an object, or true for the usual one.
std::optional<LoraOptions> parse_adapter(const Section& parent, const std::string& file, const std::string& of) {
  if (!parent->has("adapter")) return std::nullopt;
  const nlohmann::json& raw = parent->raw().at("adapter");
  if (raw == false) return std::nullopt;
  const nlohmann::json holder = {{of + ".adapter", raw == true ? nlohmann::json::object() : raw}};
  const Section section(holder, of + ".adapter", file, {"rank", "alpha", "targets", "learning_rate"});
  LoraOptions adapter;
  adapter.rank = section.integer("rank", adapter.rank, 1, 4096);
  adapter.alpha = section->number_or("alpha", 2 * adapter.rank, 1e-3, 1e6);
  adapter.targets = section->texts("targets");
  adapter.learning_rate = section->number_or("learning_rate", adapter.learning_rate, 1e-8, 1);
  return adapter;
}

/// What trains a scorer through the model, and what it must not be beside.
void parse_student(const Section& section, const std::string& file, ScorerOptions& scorer) {
  scorer.adapter = parse_adapter(section, file, "scorer");
  const auto only = [&](const char* key, const char* with, bool fits) {
    if (section->has(key) && !fits)
      fail(file, std::string("scorer.") + key, std::string("no ") + with, std::string("it beside ") + with);
  };
  only("top_teacher", "adapter", scorer.adapter.has_value());
  only("lse", "adapter", scorer.adapter.has_value());
  scorer.top_teacher = section.integer("top_teacher", scorer.top_teacher, 0, 1 << 24);
  const std::string lse = section->text_or("lse", "dense");
  if (lse != "dense" && lse != "sparse") fail(file, "scorer.lse", lse, "dense or sparse");
  scorer.sparse_lse = lse == "sparse";
  scorer.output_weight = section->number_or("output_weight", 0, 0, 1e6);
  scorer.output_after = section->integer_or("output_after", 0, 0, 100'000'000);
  if (scorer.output_weight > 0 && scorer.adapter) {
    fail(file, "scorer.output_weight", "an adapter beside it",
         "one of the two: the adapter learns from the output already");
  }
}

/// The network and its decay. What another kind has is refused rather than ignored.
void parse_network(const Section& section, const std::string& file, ScorerOptions& scorer) {
  const std::string is = section->text_or("kind", "mlstm");
  scorer.kind = parse_scorer_kind(is, file);
  const bool memory = scorer.kind == GateKind::kvpop_mlstm;
  const auto only = [&](const char* key, const char* kind, bool fits) {
    if (section->has(key) && !fits)
      fail(file, std::string("scorer.") + key, std::string("a key of kind ") + kind, "none for kind " + is);
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

ScorerOptions parse_scorer(const nlohmann::json& json, const std::string& file, int length) {
  const Section section(json, "scorer", file,
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

/// Whether kvpop_scorer.json can say it, which stands beside a model that was trained with it.
bool has_file_of_its_own(const ScorerOptions& scorer) {
  return scorer.kind == GateKind::kvpop_mlstm && scorer.delay == scorer.window && !scorer.decay && !scorer.adapter;
}

GateStage parse_stage(const nlohmann::json& json, const std::string& file) {
  const nlohmann::json parent = {{"stage", json}};
  const Section section(parent, "stage", file, {"weight", "steps", "max_seconds"});
  return {section->number_or("weight", 0, 0, 1e6), parse_length(section)};
}

GateOptions parse_gate(const nlohmann::json& json, const std::string& file, int length) {
  const Section section(json, "gate", file,
                        phase_keys({"method", "hidden", "bias", "window", "sinks", "threshold", "stages", "adapter",
                                    "hard_share", "anneal", "sampled", "least_probability"}));
  GateOptions gate;
  gate.method = section->text("method");
  gate.optimizer = {.beta2 = 0.999, .weight_decay = 0.01, .clip = 1, .warm_up = 30};
  gate.batch = 4;
  parse_phase(section, gate);
  if (section->has("hidden")) gate.hidden = section.integer("hidden", 0, 0, 1 << 16);
  if (section->has("bias")) gate.bias = section->number("bias", -100, 100);
  if (section->has("window")) gate.window = section.integer("window", 1, 1, length);
  if (section->has("sinks")) gate.n_sink = section.integer("sinks", 0, 0, length);
  if (section->has("threshold")) gate.threshold = section->number("threshold", -1e6, 1e6);
  gate.adapter = parse_adapter(section, file, "gate");
  gate.hard_share = section->number_or("hard_share", 0, 0, 1);
  gate.anneal = section->integer_or("anneal", 0, 0, 100'000'000);
  gate.sampled = section->boolean_or("sampled", false);
  gate.least_probability = section->number_or("least_probability", 0, 0, 0.5);
  if (gate.hard_share > 0 && !gate.adapter) {
    fail(file, "gate.hard_share", "no adapter",
         "one: while the gate is hard it stays as it is, and nothing else would learn");
  }
  const auto& raw = section->raw();
  if (!raw.contains("stages") || !raw.at("stages").is_array() || raw.at("stages").empty()) {
    fail(file, "gate.stages", "nothing", "a list of {\"weight\", \"steps\"}");
  }
  for (const auto& stage : raw.at("stages")) {
    gate.stages.push_back(parse_stage(stage, file));
    for (std::size_t i = 0; i + 1 < gate.stages.size(); ++i) {
      if (gate.stages[i].weight == gate.stages.back().weight) {
        fail(file, "gate.stages", "two stages of the same weight", "different ones: each names its gate");
      }
    }
  }
  return gate;
}

}  // namespace

Recipe Recipe::parse(const nlohmann::json& json, const std::string& file, const ModelConfig* base) {
  if (!json.is_object()) fail(file, "recipe", json.type_name(), "an object");
  static const std::set<std::string> kSections = {"name", "note", "seed", "model", "data", "base", "scorer", "gate"};
  for (const auto& [name, value] : json.items()) {
    if (!kSections.contains(name)) {
      fail(file, name, "an unknown key", "name, note, seed, model, data, base, scorer or gate");
    }
  }
  const JsonObject top(json, file);
  Recipe recipe;
  recipe.name = top.text("name");
  recipe.seed = static_cast<std::uint64_t>(top.integer_or("seed", 1, 0, INT64_MAX));
  const std::string kind =
      json.contains("data") && json.at("data").is_object() ? json.at("data").value("kind", "tasks") : "tasks";
  if (kind != "tasks" && kind != "text") fail(file, "data.kind", kind, "tasks or text");
  if (kind == "text") {
    recipe.text = parse_text(json, file, recipe.heldout_share);
  } else {
    recipe.data = parse_data(json, file, recipe.heldout_share);
  }
  if (base == nullptr) {
    recipe.model = parse_model(json, file);
    recipe.model.max_positions = recipe.length();
    recipe.base = parse_base(json, file);
  } else {
    for (const char* section : {"model", "base"}) {
      if (json.contains(section)) fail(file, section, "a section", "none: --base names the model");
    }
    recipe.model = *base;
    if (recipe.length() > base->max_positions) {
      fail(file, "data.length", std::to_string(recipe.length()),
           "at most the base's context of " + std::to_string(base->max_positions));
    }
  }
  if (json.contains("scorer") || base == nullptr) recipe.scorer = parse_scorer(json, file, recipe.length());
  if (base == nullptr && !has_file_of_its_own(*recipe.scorer)) {
    fail(file, "scorer", "another network than the delayed mLSTM, a decay or an adapter",
         "neither: the model's own scorer is that one");
  }
  if (json.contains("gate")) recipe.gate = parse_gate(json, file, recipe.length());
  return recipe;
}

}  // namespace kvscope::engine
