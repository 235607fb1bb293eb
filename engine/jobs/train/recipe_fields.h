#pragma once
// The keys of a recipe's sections, each once with the range of its value, as run_fields.h has those of a run. Keys whose range
// depends on another section, and those that are objects or lists, are in the section's own parser. Private to recipe*.cpp.

#include <string>
#include <type_traits>
#include <vector>

#include "engine/core/record/run_fields.h"
#include "engine/jobs/train/recipe.h"

namespace kvscope::engine {

/// The value of an enum by its word, in the enum's order; of a flag the words of false and true.
struct OneOf {
  std::vector<std::string> words;
};

/// The network of section "model"; the family's own numbers are the rest.
struct RecipeModel {
  int layers = 6, hidden = 256, heads = 8, kv_heads = 4, head_dim = 64, ffn = 768, vocabulary = 4096;
  double rope_theta = 10000;
};

template <typename Visit>
void visit_fields(RecipeModel& m, Visit&& visit) {
  visit("layers", m.layers, FieldRange{1, 256});
  visit("hidden", m.hidden, FieldRange{8, 16384});
  visit("heads", m.heads, FieldRange{1, 256});
  visit("kv_heads", m.kv_heads, FieldRange{1, 256});
  visit("head_dim", m.head_dim, FieldRange{8, 256});
  visit("ffn", m.ffn, FieldRange{8, 65536});
  visit("vocabulary", m.vocabulary, FieldRange{260, 65536});  // the corpus stores 16 bits a token
  visit("rope_theta", m.rope_theta, FieldRange{1, 1e9});
}

template <typename Visit>
void visit_fields(TextOptions& t, Visit&& visit) {
  visit("length", t.length, FieldRange{16, 1 << 20});
  visit("facts_share", t.facts_share, FieldRange{0, 1});
  visit("max_facts", t.max_facts, FieldRange{1, 100});
}

/// Visited in this order: the most numbers and facts are at least the fewest.
template <typename Visit>
void visit_fields(SequenceOptions& s, Visit&& visit) {
  visit("length", s.length, FieldRange{16, 65536});
  visit("slots", s.n_slots, FieldRange{2, 1000});
  visit("reversals", s.n_reversals, FieldRange{0, 100});
  visit("min_numbers", s.min_numbers, FieldRange{1, 1000});
  visit("max_numbers", s.max_numbers, FieldRange{static_cast<double>(s.min_numbers), 1000});
  visit("min_facts", s.min_facts, FieldRange{0, 300});
  visit("max_facts", s.max_facts, FieldRange{static_cast<double>(s.min_facts), 300});
  visit("reasoning_share", s.reasoning_share, FieldRange{0, 1});
}

template <typename Visit>
void visit_fields(PalindromeOptions& p, Visit&& visit) {
  visit("length", p.length, FieldRange{16, 65536});
  visit("numbers", p.numbers, FieldRange{0, 1000});
}

template <typename Visit>
void visit_fields(RepeatOptions& r, Visit&& visit) {
  visit("length", r.length, FieldRange{16, 1 << 20});
  visit("chat", r.chat, AnyValue{});
}

template <typename Visit>
void visit_fields(LossWeights& w, Visit&& visit) {
  visit("weight_text", w.text, FieldRange{0, 1e6});
  visit("weight_statement", w.statement, FieldRange{0, 1e6});
  visit("weight_answer", w.answer, FieldRange{0, 1e6});
}

template <typename Visit>
void visit_phase(PhaseOptions& p, Visit&& visit) {
  visit("batch", p.batch, FieldRange{1, 65536});
  visit("log_every", p.log_every, FieldRange{1, 1'000'000});
  visit("heldout_sequences", p.heldout_sequences, FieldRange{1, 65536});
  OptimizerOptions& o = p.optimizer;
  visit("learning_rate", o.learning_rate, FieldRange{0, 1});
  visit("beta1", o.beta1, FieldRange{0, 0.99999});
  visit("beta2", o.beta2, FieldRange{0, 0.99999});
  visit("weight_decay", o.weight_decay, FieldRange{0, 10});
  visit("clip", o.clip, FieldRange{0, 1e6});
  visit("warm_up", o.warm_up, FieldRange{0, 1'000'000});
  visit("final_share", o.final_share, FieldRange{0, 1});
}

template <typename Visit>
void visit_fields(BaseOptions& b, Visit&& visit) {
  visit_phase(b, visit);
  visit_fields(b.weights, visit);
}

template <typename Visit>
void visit_fields(ScorerOptions& s, Visit&& visit) {
  visit_phase(s, visit);
  visit("hidden", s.hidden, FieldRange{1, 1 << 16});
  visit("soft_cap", s.soft_cap, FieldRange{0, 1e6});
  visit("feature_map", s.mlstm.feature_map, OneOf{{"hedgehog", "softmax"}});
  visit("head_norm", s.mlstm.head_norm, AnyValue{});
  visit("cached_values", s.mlstm.cached_values, AnyValue{});
  visit("skip", s.mlstm.skip, AnyValue{});
  visit("mass", s.mass, OneOf{{"mean", "sum", "rms", "max"}});
  visit("weight", s.weight, OneOf{{"mass", "value", "output"}});
  visit("queries", s.queries, FieldRange{1, 65536});
  visit("late_share", s.late_share, FieldRange{0, 1});
  visit("temperature", s.temperature, FieldRange{1e-3, 1e3});
  visit("margin", s.margin, OneOf{{"none", "sigmoid", "proportional"}});
  visit("margin_min", s.margin_min, FieldRange{0, 1});
  visit("margin_temperature", s.margin_temperature, FieldRange{1e-3, 1e3});
  visit("balance_min", s.balance_min, FieldRange{0, 1});
  visit("balance_max", s.balance_max, FieldRange{1, 1e6});
  visit("kl_weight", s.kl_weight, FieldRange{0, 1});
  visit("top_teacher", s.top_teacher, FieldRange{0, 1 << 24});
  visit("lse", s.sparse_lse, OneOf{{"dense", "sparse"}});
  visit("output_weight", s.output_weight, FieldRange{0, 1e6});
  visit("output_after", s.output_after, FieldRange{0, 100'000'000});
  visit("accuracy_sequences", s.accuracy_sequences, FieldRange{0, 65536});
  visit("capacity", s.pooled, OneOf{{"per-head", "pooled"}});
}

template <typename Visit>
void visit_fields(GateOptions& g, Visit&& visit) {
  visit_phase(g, visit);
  visit("hidden", g.hidden, FieldRange{0, 1 << 16});
  visit("kernel", g.kernel, FieldRange{1, 4095});
  visit("bias", g.bias, FieldRange{-100, 100});
  visit("threshold", g.threshold, FieldRange{-1e6, 1e6});
  visit_fields(g.weights, visit);
  visit("hard_share", g.hard_share, FieldRange{0, 1});
  visit("anneal", g.anneal, FieldRange{0, 100'000'000});
  visit("sampled", g.sampled, AnyValue{});
  visit("least_probability", g.least_probability, FieldRange{0, 0.5});
}

template <typename Visit>
void visit_fields(KvzapOptions& k, Visit&& visit) {
  visit_phase(k, visit);
  visit("hidden", k.hidden, FieldRange{0, 1 << 16});
  visit("positions", k.positions, FieldRange{1, 1 << 20});
  visit("window", k.window, FieldRange{1, 1 << 20});
  visit("sinks", k.n_sink, FieldRange{0, 1 << 20});
  visit("threshold", k.threshold, FieldRange{-1e6, 1e6});
  visit("density", k.density, FieldRange{0.001, 0.999});
}

/// "text", "file" and "tokens" are read apart.
template <typename Visit>
void visit_fields(ProbeOptions& p, Visit&& visit) {
  visit("every", p.every, FieldRange{1, 1'000'000});
}

/// "steps" and "max_seconds" are read apart.
template <typename Visit>
void visit_fields(GateStage& s, Visit&& visit) {
  visit("weight", s.weight, FieldRange{0, 1e6});
}

template <typename Visit>
void visit_fields(AllWeightsOptions& a, Visit&& visit) {
  visit("learning_rate", a.learning_rate, FieldRange{1e-8, 1});
}

/// "alpha" is read apart: it is twice the rank where nothing says it.
template <typename Visit>
void visit_fields(LoraOptions& l, Visit&& visit) {
  visit("rank", l.rank, FieldRange{1, 4096});
  visit("learning_rate", l.learning_rate, FieldRange{1e-8, 1});
}

}  // namespace kvscope::engine
