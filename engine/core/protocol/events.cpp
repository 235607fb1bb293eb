#include "engine/core/protocol/events.h"

#include <limits>
#include <stdexcept>

#include "engine/core/protocol/fields.h"

namespace kvscope::protocol {

using nlohmann::json;

namespace {

constexpr double kMaxSeconds = 1e9;

std::string text_or_empty(const json& event, const char* key) {
  if (!event.is_object()) return {};
  const auto found = event.find(key);
  return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

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

json oracle_event(int id, int horizon, std::span<const float> recall, bool final) {
  return {{"type", "oracle"}, {"id", id}, {"horizon", horizon}, {"recall", pack(recall)}, {"final", final}};
}

}  // namespace

json hello(std::string_view engine_version, std::string_view torch_version, bool cuda, std::string_view device) {
  return {{"type", "hello"},        {"version", kVersion}, {"engine", engine_version},
          {"torch", torch_version}, {"cuda", cuda},        {"device", device}};
}

json started(int id, int n_positions, std::span<const std::int32_t> ids, const BytePool& pieces,
             const PolicySpec& policy, const ScorerInfo& scorer, const OracleSpec& oracle,
             std::span<const std::uint8_t> local_heads) {
  const std::vector<std::int32_t> local(local_heads.begin(), local_heads.end());
  return {{"type", "started"},
          {"id", id},
          {"n_positions", n_positions},
          {"prompt_len", ids.size()},
          {"ids", pack(ids)},
          {"pieces", pack(pieces)},
          {"policy", policy.to_string()},
          {"scorer", scorer.text},
          {"scorer_kind", scorer.kind},
          {"scorer_delay", scorer.delay},
          {"local_heads", pack(local)},
          {"oracle_spec", oracle.to_string()}};
}

json policy_changed(int id, std::int32_t q, const PolicySpec& policy) {
  return {{"type", "policy"}, {"id", id}, {"q", q}, {"policy", policy.to_string()}};
}

json oracle(int id, int horizon, std::span<const float> recall) { return oracle_event(id, horizon, recall, false); }

json oracle_final(int id, int horizon, std::span<const float> recall, const HeadSeries<float>& future_mass) {
  std::vector<float> mass;
  mass.reserve(static_cast<std::size_t>(future_mass.n_layers()) * future_mass.n_kv_heads() * horizon);
  for (int layer = 0; layer < future_mass.n_layers(); ++layer) {
    for (int head = 0; head < future_mass.n_kv_heads(); ++head) {
      const std::vector<float>& row = future_mass.row(layer, head);
      if (row.size() < static_cast<std::size_t>(horizon)) throw std::invalid_argument("oracle_final: a row is short");
      mass.insert(mass.end(), row.begin(), row.begin() + horizon);
    }
  }
  json event = oracle_event(id, horizon, recall, true);
  event["future_mass"] = pack(mass);
  return event;
}

json progress(int id, std::string_view phase, double value, double max, std::string_view text) {
  return {{"type", "progress"}, {"id", id}, {"phase", phase}, {"value", value}, {"max", max}, {"text", text}};
}

json row(int id, std::string_view text, json data) {
  return {{"type", "row"}, {"id", id}, {"text", text}, {"data", std::move(data)}};
}

json log(int id, std::string_view text) { return {{"type", "log"}, {"id", id}, {"text", text}}; }

json done(int id, json fields) {
  if (!fields.is_object()) throw std::invalid_argument("done: fields must be an object");
  fields["type"] = "done";
  fields["id"] = id;
  return fields;
}

json done_load(int id, const ModelInfo& model, double load_s) {
  return done(id, {{"model", to_json(model)}, {"load_s", load_s}});
}

json done_run(int id, RunStatus status, const RunTimings& timings, std::string_view text) {
  return done(id, {{"status", to_string(status)}, {"timings", to_json(timings)}, {"text", text}});
}

json done_score(int id, std::span<const std::int32_t> ids, std::span<const float> logprobs, double nll) {
  return done(id, {{"ids", pack(ids)}, {"logprobs", pack(logprobs)}, {"nll", nll}});
}

json done_score(int id, std::span<const std::int32_t> ids, std::span<const float> logprobs, double nll,
                std::span<const std::int32_t> greedy, std::span<const float> density) {
  json event = done_score(id, ids, logprobs, nll);
  event["greedy"] = pack(greedy);
  event["density"] = pack(density);
  return event;
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
  if (parts.found.empty()) parts.found = "the engine reported an error without saying which";
  return Error(std::move(parts));
}

json to_json(const RunTimings& timings) {
  return {{"load_s", timings.load_s},
          {"prefill_s", timings.prefill_s},
          {"decode_s", timings.decode_s},
          {"decode_steps", timings.decode_steps},
          {"instrumented", timings.instrumented}};
}

RunTimings timings_from_json(const json& j) {
  return {.load_s = number(j, "load_s", 0, kMaxSeconds),
          .prefill_s = number(j, "prefill_s", 0, kMaxSeconds),
          .decode_s = number(j, "decode_s", 0, kMaxSeconds),
          .decode_steps = static_cast<int>(integer(j, "decode_steps", 0, kMaxPositions)),
          .instrumented = boolean(j, "instrumented")};
}

}  // namespace kvscope::protocol
