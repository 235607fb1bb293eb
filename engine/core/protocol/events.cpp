#include "engine/core/protocol/events.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "engine/core/protocol/fields.h"
#include "engine/core/support/plain_text.h"

namespace kvscope::protocol {

using nlohmann::json;

namespace {

/// A code that is not one of ours means that the engine is not well: internal.
ExitCode exit_code(const json& event) {
  if (!event.is_object()) return ExitCode::internal;
  const auto found = event.find("code");
  if (found == event.end() || !found->is_number_integer()) return ExitCode::internal;
  for (const ExitCode code : {ExitCode::usage, ExitCode::bad_input, ExitCode::resource, ExitCode::cancelled}) {
    if (*found == static_cast<int>(code)) return code;
  }
  return ExitCode::internal;
}

/// [n_layers][n_kv_heads][horizon] in one.
std::vector<float> joined(const HeadSeries<float>& series, int horizon) {
  std::vector<float> all;
  all.reserve(static_cast<std::size_t>(series.n_layers()) * series.n_kv_heads() * horizon);
  for (int layer = 0; layer < series.n_layers(); ++layer) {
    for (int head = 0; head < series.n_kv_heads(); ++head) {
      const std::vector<float>& row = series.row(layer, head);
      if (row.size() < static_cast<std::size_t>(horizon)) throw std::invalid_argument("oracle: a row is short");
      all.insert(all.end(), row.begin(), row.begin() + horizon);
    }
  }
  return all;
}

HeadSeries<float> unpack_series(const json& event, const char* field, const ModelInfo& model, int horizon) {
  const std::vector<float> mass = unpack_f32(event, field);
  const std::size_t expected = static_cast<std::size_t>(model.n_layers) * model.n_kv_heads * horizon;
  if (mass.size() != expected) {
    bad_field(event, field, std::to_string(mass.size()) + " numbers",
              std::to_string(expected) + ", heads times horizon");
  }
  HeadSeries<float> rows(model.n_layers, model.n_kv_heads);
  auto from = mass.begin();
  for (int layer = 0; layer < model.n_layers; ++layer) {
    for (int head = 0; head < model.n_kv_heads; ++head, from += horizon) {
      rows.row(layer, head).assign(from, from + horizon);
    }
  }
  return rows;
}

constexpr double kMaxProgress = 1e15;

RunStatus status_from(const json& event) {
  const std::string name = text(event, "status");
  for (const RunStatus status : {RunStatus::complete, RunStatus::cancelled, RunStatus::failed}) {
    if (name == to_string(status)) return status;
  }
  bad_field(event, "status", "\"" + name + "\"", "complete, cancelled or failed");
}

}  // namespace

void check_event(const json& event) {
  for (const char* key : {"phase", "text", "status", "engine", "torch", "device"}) {
    if (event.contains(key)) text(event, key);
  }
  for (const char* key : {"value", "max"}) {
    if (event.contains(key)) number(event, key, -kMaxProgress, kMaxProgress);
  }
  if (event.contains("id")) integer(event, "id", -1, INT32_MAX);
  if (event.contains("version")) integer(event, "version", 0, INT32_MAX);
}

json hello(std::string_view engine_version, std::string_view torch_version, bool cuda, std::string_view device) {
  return {{"type", "hello"},        {"version", kVersion}, {"engine", engine_version},
          {"torch", torch_version}, {"cuda", cuda},        {"device", device}};
}

json to_json(const RunStarted& started, int id) {
  const RunHead& head = started.head;
  json event = {{"type", "started"},
                {"id", id},
                {"prompt_len", started.ids.size()},
                {"ids", pack(started.ids)},
                {"pieces", pack(started.pieces)},
                {"policy", head.policy.to_string()},
                {"scorer", head.scorer.text},
                {"scorer_kind", head.scorer.kind},
                {"scorer_delay", head.scorer.delay},
                {"scorer_gate", head.scorer.gate},
                {"oracle_spec", head.oracle.to_string()}};
  visit_fields(head, [&](const char* name, int value, FieldRange) { event[name] = value; });
  if (!head.heads.empty()) event["heads"] = to_json(head.heads);
  return event;
}

RunStarted started_from_json(const json& event, const DeclaredPolicy* own) {
  RunStarted started;
  RunHead& head = started.head;
  visit_fields(head, [&](const char* name, int& value, FieldRange range) {
    // An engine of another build may not know the newest ones; n_positions has no default.
    if (std::string_view(name) == "n_positions" || event.contains(name))
      value = static_cast<int>(
          integer(event, name, static_cast<std::int64_t>(range.min), static_cast<std::int64_t>(range.max)));
  });
  const std::int64_t prompt_len = integer(event, "prompt_len", 1, head.n_positions);
  started.ids = unpack_i32(event, "ids");
  started.pieces = unpack_pool(event, "pieces");
  if (static_cast<std::int64_t>(started.ids.size()) != prompt_len || started.pieces.size() != started.ids.size()) {
    bad_field(event, "ids",
              std::to_string(started.ids.size()) + " ids and " + std::to_string(started.pieces.size()) + " pieces",
              std::to_string(prompt_len) + " of each, as prompt_len says");
  }
  head.policy = PolicySpec::parse(text(event, "policy"), own);
  if (event.contains("oracle_spec")) head.oracle = OracleSpec::parse(text(event, "oracle_spec"));
  if (event.contains("scorer")) head.scorer.text = text(event, "scorer");
  if (event.contains("scorer_kind")) head.scorer.kind = text(event, "scorer_kind");
  if (event.contains("scorer_delay"))
    head.scorer.delay = static_cast<int>(integer(event, "scorer_delay", -1, kMaxPositions));
  if (event.contains("scorer_gate")) head.scorer.gate = text(event, "scorer_gate");
  if (event.contains("heads")) head.heads = head_rules_from_json(event);
  return started;
}

json to_json(const PolicyChange& change, int id) {
  return {{"type", "policy"}, {"id", id}, {"q", change.q}, {"policy", change.policy.to_string()}};
}

PolicyChange policy_change_from_json(const json& event, const DeclaredPolicy* own) {
  return {static_cast<std::int32_t>(integer(event, "q", 0, kMaxPositions)),
          PolicySpec::parse(text(event, "policy"), own)};
}

json to_json(const OracleFacts& facts, int id) {
  json event = {{"type", "oracle"},
                {"id", id},
                {"horizon", facts.horizon},
                {"recall", pack(facts.recall)},
                {"final", facts.final}};
  if (!facts.final) return event;
  event["future_mass"] = pack(joined(facts.future_mass, facts.horizon));
  visit_future(facts.future, [&](const char* name, const HeadSeries<float>& series) {
    if (!series.empty()) event[name] = pack(joined(series, facts.horizon));
  });
  return event;
}

std::size_t bulk_bytes(const OracleFacts& facts) {
  std::size_t n_series = facts.future_mass.empty() ? 0 : 1;
  visit_future(facts.future, [&](const char*, const HeadSeries<float>& series) {
    n_series += static_cast<std::size_t>(!series.empty());
  });
  return n_series * facts.recall.size() * static_cast<std::size_t>(facts.horizon) * sizeof(float);
}

OracleFacts oracle_facts_from_json(const json& event, const ModelInfo& model) {
  OracleFacts facts;
  facts.horizon = static_cast<int>(integer(event, "horizon", 0, kMaxPositions));
  facts.recall = unpack_f32(event, "recall");
  facts.final = boolean(event, "final");
  if (!facts.final) return facts;
  facts.future_mass = unpack_series(event, "future_mass", model, facts.horizon);
  visit_future(facts.future, [&](const char* name, HeadSeries<float>& series) {
    if (event.contains(name)) series = unpack_series(event, name, model, facts.horizon);
  });
  return facts;
}

json to_json(const RunEnded& ended, int id) {
  return done(
      id, {{"status", to_string(ended.status)}, {"timings", to_json(ended.timings)}, {"text", plain_text(ended.text)}});
}

RunEnded run_ended_from_json(const json& event) {
  RunEnded ended;
  ended.status = status_from(event);
  ended.timings = timings_from_json(field(event, "timings", json::value_t::object));
  if (event.contains("text")) ended.text = text(event, "text");
  return ended;
}

json progress(int id, std::string_view phase, double value, double max, std::string_view text) {
  return {{"type", "progress"}, {"id", id}, {"phase", phase}, {"value", value}, {"max", max}, {"text", text}};
}

json row(int id, std::string_view text, json data) {
  return {{"type", "row"}, {"id", id}, {"text", text}, {"data", std::move(data)}};
}

json warning(int id, std::string_view text) { return {{"type", "warning"}, {"id", id}, {"text", text}}; }

json log(int id, std::string_view text) { return {{"type", "log"}, {"id", id}, {"text", text}}; }

json done(int id, json fields) {
  if (!fields.is_object()) throw std::invalid_argument("done: fields must be an object");
  fields["type"] = "done";
  fields["id"] = id;
  return fields;
}

json done_load(int id, const ModelInfo& model, double load_s, const GatesOfModel& gates) {
  return done(id, {{"model", to_json(model)}, {"load_s", load_s}, {"gates", to_json(gates)}});
}

ModelInfo model_from_event(const json& event) {
  return model_info_from_json(field(event, "model", json::value_t::object));
}

bool was_cancelled(const json& event) {
  const auto result = event.find("result");
  return text_or_empty(event, "status") == "cancelled" ||
         (result != event.end() && text_or_empty(*result, "status") == "cancelled");
}

std::vector<DoctorCheck> doctor_checks_from_event(const json& event) {
  std::vector<DoctorCheck> checks;
  for (const json& one : field(event, "checks", json::value_t::array)) {
    checks.push_back({text(one, "name"), boolean(one, "ok"), text(one, "text"), text_or_empty(one, "hint")});
  }
  return checks;
}

json done_score(int id, const ScoreFacts& facts) {
  json event = done(id, {{"ids", pack(facts.ids)},
                         {"logprobs", pack(facts.logprobs)},
                         {"nll", facts.nll},
                         {"density", pack(facts.density)},
                         {"cache_size", facts.cache_size},
                         {"dense", facts.dense},
                         {"policy", facts.policy.to_string()},
                         {"prompt_len", facts.prompt_len},
                         {"chunk", facts.chunk},
                         {"recall", facts.quality.recall},
                         {"chance", facts.quality.chance},
                         {"mass_recall", facts.quality.mass_recall},
                         {"output_error", facts.quality.output_error}});
  if (!facts.thresholds.empty()) event["thresholds"] = pack(facts.thresholds);
  if (!facts.greedy.empty()) event["greedy"] = pack(facts.greedy);
  return event;
}

ScoreFacts score_from_event(const json& event) {
  const auto number_or_nan = [&](const char* key) {
    return event.contains(key) && event[key].is_number() ? event[key].get<double>() : std::nan("");
  };
  ScoreFacts facts{.ids = unpack_i32(event, "ids"),
                   .logprobs = unpack_f32(event, "logprobs"),
                   .nll = number_or_nan("nll"),
                   .density = unpack_f32(event, "density"),
                   .dense = boolean(event, "dense"),
                   .prompt_len = static_cast<int>(integer(event, "prompt_len", 0, kMaxPositions)),
                   .chunk = static_cast<int>(integer(event, "chunk", 0, kMaxPositions))};
  facts.policy = PolicySpec::parse(text(event, "policy"));
  facts.quality = {number_or_nan("recall"), number_or_nan("chance"), number_or_nan("mass_recall"),
                   number_or_nan("output_error")};
  facts.cache_size = number_or_nan("cache_size");
  if (event.contains("thresholds")) facts.thresholds = unpack_f32(event, "thresholds");
  if (event.contains("greedy")) facts.greedy = unpack_i32(event, "greedy");
  const auto check = [&](const char* what, std::size_t n) {
    if (n == facts.ids.size()) return;
    bad_field(event, what, std::to_string(n), std::to_string(facts.ids.size()) + ", one per token");
  };
  check("logprobs", facts.logprobs.size());
  if (!facts.greedy.empty()) check("greedy", facts.greedy.size());
  return facts;
}

json done_token_attention(int id, const TokenAttention& attention) {
  return done(id, {{"layer", attention.layer},
                   {"n_heads", attention.n_heads},
                   {"n_queries", attention.n_queries},
                   {"tokens", pack(attention.tokens)},
                   {"probability", pack(attention.probability)}});
}

TokenAttention token_attention_from_event(const json& event) {
  TokenAttention attention{.layer = static_cast<int>(integer(event, "layer", 0, INT32_MAX)),
                           .n_heads = static_cast<int>(integer(event, "n_heads", 1, 1 << 16)),
                           .n_queries = static_cast<int>(integer(event, "n_queries", 1, kMaxPositions)),
                           .tokens = unpack_i32(event, "tokens"),
                           .probability = unpack_f32(event, "probability")};
  for (const std::int32_t token : attention.tokens) {
    if (token >= 0 && token < attention.n_queries) continue;
    bad_field(event, "tokens", std::to_string(token), "0 ... " + std::to_string(attention.n_queries - 1));
  }
  // Each factor is bounded, and the tokens are no more than a message has room for: no overflow.
  const std::uint64_t wanted = static_cast<std::uint64_t>(attention.tokens.size()) *
                               static_cast<std::uint64_t>(attention.n_heads) *
                               static_cast<std::uint64_t>(attention.n_queries);
  if (attention.tokens.size() > TokenAttentionRequest::kMostTokens || attention.probability.size() != wanted) {
    bad_field(event, "probability", std::to_string(attention.probability.size()), std::to_string(wanted));
  }
  return attention;
}

json done_query_attention(int id, const QueryAttention& attention) {
  return done(id, {{"n_layers", attention.n_layers},
                   {"n_kv_heads", attention.n_kv_heads},
                   {"n_tokens", attention.n_tokens},
                   {"probability", pack(attention.probability)}});
}

QueryAttention query_attention_from_event(const json& event) {
  QueryAttention attention{.n_layers = static_cast<int>(integer(event, "n_layers", 1, 1 << 16)),
                           .n_kv_heads = static_cast<int>(integer(event, "n_kv_heads", 1, 1 << 16)),
                           .n_tokens = static_cast<int>(integer(event, "n_tokens", 1, kMaxPositions)),
                           .probability = unpack_f32(event, "probability")};
  const std::uint64_t wanted = static_cast<std::uint64_t>(attention.n_layers) *
                               static_cast<std::uint64_t>(attention.n_kv_heads) *
                               static_cast<std::uint64_t>(attention.n_tokens);
  if (attention.probability.size() != wanted)
    bad_field(event, "probability", std::to_string(attention.probability.size()), std::to_string(wanted));
  for (const float p : attention.probability)
    if (!(p >= 0 && p <= 1.001f)) bad_field(event, "probability", std::to_string(p), "0 to 1");
  return attention;
}

json error_event(int id, const Error& error) {
  const Error::Parts& parts = error.parts();
  return {{"type", "error"},
          {"id", id},
          {"code", static_cast<int>(parts.code)},
          {"file", parts.file},
          {"where", parts.where},
          {"found", parts.found},
          {"expected", parts.expected},
          {"hint", parts.hint}};
}

Error error_from_event(const json& event) {
  Error::Parts parts{.code = exit_code(event),
                     .file = text_or_empty(event, "file"),
                     .where = text_or_empty(event, "where"),
                     .found = text_or_empty(event, "found"),
                     .expected = text_or_empty(event, "expected"),
                     .hint = text_or_empty(event, "hint")};
  if (parts.found.empty()) parts.found = "the engine reported an error without a message";
  return Error(std::move(parts));
}

json to_json(const RunTimings& timings) { return fields_to_json(timings); }
RunTimings timings_from_json(const json& j) { return fields_from_json<RunTimings>(j); }

}  // namespace kvscope::protocol
