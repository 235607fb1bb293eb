#pragma once
// The fields of a run's small structs, each said once with its range: messages, traces, checksums, comparisons, sessions
// and docs are visits of these. A visitor takes (name, value, range):
//
//     struct Print { void operator()(std::string_view name, const auto& value, auto range) { ... } };
//     visit_fields(model, Print{});     // in this order, for ever: checksums and the reader's pipe depend on it
//
// A new field is one line here, and a default for files that were written before it (trace_schema.h).

#include <cstdint>
#include <limits>
#include <type_traits>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// Positions and counts are below this; it keeps products of sizes far from overflow.
inline constexpr std::int64_t kMaxPositions = 1 << 24;

/// A field as a number: of an enum its value.
template <typename T>
constexpr auto as_number(T value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<std::underlying_type_t<T>>(value);
  } else {
    return value;
  }
}

/// Both ends inclusive; of whole numbers and reals alike. Texts, flags and seeds have none.
struct FieldRange {
  double min = 0, max = 0;
};
struct AnyValue {};

/// Calls visit for every field of a T (const or not).
template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, ModelInfo>
void visit_fields(T& m, Visit&& visit) {
  constexpr FieldRange heads{1, 4096};
  visit("name", m.name, AnyValue{});
  visit("path", m.path, AnyValue{});
  visit("architecture", m.architecture, AnyValue{});
  visit("dtype", m.dtype, AnyValue{});
  visit("device", m.device, AnyValue{});
  visit("weights_hash", m.weights_hash, AnyValue{});
  visit("scorer", m.scorer, AnyValue{});
  visit("n_layers", m.n_layers, heads);
  visit("n_heads", m.n_heads, heads);
  visit("n_kv_heads", m.n_kv_heads, heads);
  visit("head_dim", m.head_dim, FieldRange{1, 65536});
  visit("vocab_size", m.vocab_size, FieldRange{1, kMaxPositions});
  visit("max_positions", m.max_positions, FieldRange{1, std::numeric_limits<int>::max()});
  visit("n_parameters", m.n_parameters, FieldRange{0, 9e18});
}

/// Its numbers.
template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, RunHead>
void visit_fields(T& h, Visit&& visit) {
  visit("n_positions", h.n_positions, FieldRange{0, kMaxPositions});  // 0: of a run that failed before its start
  visit("chunk", h.chunk, FieldRange{0, kMaxPositions});
  visit("page_size", h.page_size, FieldRange{1, 4096});
}

template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, SamplingSpec>
void visit_fields(T& s, Visit&& visit) {
  visit("temperature", s.temperature, FieldRange{0, 100});
  visit("top_k", s.top_k, FieldRange{0, kMaxPositions});
  visit("top_p", s.top_p, FieldRange{0, 1});
  visit("min_p", s.min_p, FieldRange{0, 1});
  visit("repetition_penalty", s.repetition_penalty, FieldRange{0.01, 100});
  visit("seed", s.seed, AnyValue{});
}

template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, RunTimings>
void visit_fields(T& t, Visit&& visit) {
  constexpr FieldRange seconds{0, 1e9};
  visit("load_s", t.load_s, seconds);
  visit("prefill_s", t.prefill_s, seconds);
  visit("decode_s", t.decode_s, seconds);
  visit("decode_steps", t.decode_steps, FieldRange{0, kMaxPositions});
  visit("instrumented", t.instrumented, AnyValue{});
}

template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, HeadRule>
void visit_fields(T& rule, Visit&& visit) {
  constexpr FieldRange tokens{0, kMaxPositions};
  constexpr double kMost = std::numeric_limits<float>::max(), kInfinity = std::numeric_limits<double>::infinity();
  visit("n_sink", rule.n_sink, tokens);
  visit("window", rule.window, tokens);
  visit("top_k", rule.top_k, tokens);
  visit("log_gamma", rule.log_gamma, FieldRange{-kMost, 0});
  visit("threshold", rule.threshold, FieldRange{-kInfinity, kInfinity});
  visit("locality", rule.locality, FieldRange{0, 2});
}

/// Series of an OutputError; values are not negative, or NaN.
template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, OutputError>
void visit_fields(T& e, Visit&& visit) {
  constexpr FieldRange norm{0, std::numeric_limits<float>::max()};
  visit("group_damage", e.group_damage, norm);
  visit("layer_damage", e.layer_damage, norm);
  visit("layer_output", e.layer_output, norm);
  visit("read_mass", e.read_mass, FieldRange{0, 1.001});
  visit("best_read_mass", e.best_read_mass, FieldRange{0, 1.001});
}

}  // namespace kvscope
