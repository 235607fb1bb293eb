#include "engine/core/protocol/requests.h"

#include "engine/core/protocol/fields.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/record/request_json.h"
#include "engine/core/support/error.h"

namespace kvscope::protocol {

using nlohmann::json;

namespace {

json encode(const LoadRequest& r) {
  return {{"type", "load"}, {"model", r.model}, {"device", r.device}, {"dtype", r.dtype}, {"gates", r.gates}};
}

json encode(const RunRequest& r) {
  json j = request_json(r);
  j["type"] = "run";
  if (!r.oracle_looks) j["oracle_looks"] = false;
  if (r.prompt_ids.empty()) {
    j["prompt"] = r.prompt;
  } else {
    j["prompt_ids"] = pack(r.prompt_ids);
  }
  if (r.answer_ids) j["answer_ids"] = pack(*r.answer_ids);
  if (!r.thresholds.empty()) j["thresholds"] = pack(r.thresholds);
  if (!r.budgets.empty()) j["budgets"] = pack(r.budgets);
  return j;
}

json encode(const ScoreRequest& r) {
  json j = {{"type", "score"}, {"policy", r.policy.written()}, {"chunk", r.chunk}};
  if (r.ids.empty()) {
    j["text"] = r.text;
  } else {
    j["ids"] = pack(r.ids);
  }
  if (r.n_positions > 0) j["n_positions"] = r.n_positions;
  if (r.prompt_len > 0) j["prompt_len"] = r.prompt_len;
  if (!r.changes.empty()) j["changes"] = changes_json(r.changes);
  if (!r.thresholds.empty()) j["thresholds"] = pack(r.thresholds);
  if (!r.budgets.empty()) j["budgets"] = pack(r.budgets);
  if (r.choices) j["choices"] = true;
  if (r.oracle) j["oracle"] = r.oracle->to_string();
  if (r.output_error) j["output_error"] = true;
  return j;
}

json encode(const TokenAttentionRequest& r) {
  return {{"type", "attention"}, {"ids", pack(r.ids)}, {"layer", r.layer}, {"tokens", pack(r.tokens)}};
}

json encode(const QueryAttentionRequest& r) { return {{"type", "query_attention"}, {"ids", pack(r.ids)}}; }
json encode(const GateScoresRequest& r) { return {{"type", "gate_scores"}, {"ids", pack(r.ids)}}; }
json encode(const JobRequest& r) { return {{"type", "job"}, {"job", r.job}, {"args", r.args}}; }
json encode(const DoctorRequest&) { return {{"type", "doctor"}}; }
json encode(const PolicyRequest& r) { return {{"type", "policy"}, {"target", r.target}, {"policy", r.policy}}; }
json encode(const CancelRequest& r) { return {{"type", "cancel"}, {"target", r.target}}; }
json encode(const QuitRequest&) { return {{"type", "quit"}}; }

/// Token ids; that they are the model's is checked where the model is.
std::vector<std::int32_t> token_ids(const json& j, const char* key) {
  std::vector<std::int32_t> ids = unpack_i32(j, key);
  for (const std::int32_t id : ids) {
    if (id < 0) bad_field(j, key, std::to_string(id), "token ids");
  }
  return ids;
}

int target(const json& j) { return static_cast<int>(integer(j, "target", INT32_MIN, INT32_MAX)); }

LoadRequest load_from_json(const json& j) {
  LoadRequest r{.model = text(j, "model"), .gates = texts(j, "gates")};
  if (j.contains("device")) r.device = text(j, "device");
  if (j.contains("dtype")) r.dtype = text(j, "dtype");
  return r;
}

RunRequest run_from_json(const json& j) {
  RunRequest r = request_of_json(j);
  r.oracle_looks = !j.contains("oracle_looks") || boolean(j, "oracle_looks");
  if (j.contains("prompt_ids")) {
    r.prompt_ids = token_ids(j, "prompt_ids");
  } else {
    r.prompt = text(j, "prompt");
  }
  if (j.contains("answer_ids")) r.answer_ids = token_ids(j, "answer_ids");
  if (j.contains("thresholds")) r.thresholds = unpack_f32(j, "thresholds");
  if (j.contains("budgets")) r.budgets = unpack_i32(j, "budgets");
  return r;
}

ScoreRequest score_from_json(const json& j) {
  ScoreRequest r;
  if (j.contains("ids")) {
    r.ids = token_ids(j, "ids");
    const auto n = static_cast<std::int64_t>(r.ids.size());
    if (j.contains("n_positions")) r.n_positions = static_cast<int>(integer(j, "n_positions", n, kMaxPositions));
    if (j.contains("prompt_len")) r.prompt_len = static_cast<int>(integer(j, "prompt_len", 0, n));
  } else {
    r.text = text(j, "text");
  }
  r.policy = PolicySpec::parse(j.contains("policy") ? text(j, "policy") : "full");
  if (j.contains("chunk")) r.chunk = static_cast<int>(integer(j, "chunk", 1, kMaxPositions));
  if (j.contains("changes")) r.changes = changes_of_json(field(j, "changes", json::value_t::array));
  if (j.contains("thresholds")) r.thresholds = unpack_f32(j, "thresholds");
  if (j.contains("budgets")) r.budgets = unpack_i32(j, "budgets");
  r.choices = j.contains("choices") && boolean(j, "choices");
  if (j.contains("oracle")) r.oracle = OracleSpec::parse(text(j, "oracle"));
  r.output_error = j.contains("output_error") && boolean(j, "output_error");
  return r;
}

TokenAttentionRequest token_attention_from_json(const json& j) {
  return {.ids = token_ids(j, "ids"),
          .layer = static_cast<int>(integer(j, "layer", 0, INT32_MAX)),
          .tokens = unpack_i32(j, "tokens")};
}

JobRequest job_from_json(const json& j) {
  JobRequest r{.job = text(j, "job")};
  if (j.contains("args")) r.args = j.at("args");
  return r;
}

}  // namespace

json to_json(const Request& request, int id) {
  json message = std::visit([](const auto& r) { return encode(r); }, request);
  message["id"] = id;
  return message;
}

namespace {

Request read_request(const json& message) {
  const std::string type = text(message, "type");
  if (type == "load") return load_from_json(message);
  if (type == "run") return run_from_json(message);
  if (type == "score") return score_from_json(message);
  if (type == "attention") return token_attention_from_json(message);
  if (type == "query_attention") return QueryAttentionRequest{token_ids(message, "ids")};
  if (type == "gate_scores") return GateScoresRequest{token_ids(message, "ids")};
  if (type == "job") return job_from_json(message);
  if (type == "doctor") return DoctorRequest{};
  if (type == "policy") return PolicyRequest{target(message), text(message, "policy")};
  if (type == "cancel") return CancelRequest{target(message)};
  if (type == "quit") return QuitRequest{};
  throw Error({.code = ExitCode::usage,
               .file = "request",
               .where = "type",
               .found = type,
               .expected = "load, run, score, attention, query_attention, gate_scores, job, doctor, cancel or quit"});
}

}  // namespace

Request request_from_json(const json& message) {
  try {
    return read_request(message);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    if (parts.code == ExitCode::resource) parts.code = ExitCode::bad_input;  // what is asked, not who asks
    throw Error(std::move(parts));
  }
}

int message_id(const json& message) {
  const auto found = message.find("id");
  return found != message.end() && found->is_number_integer() ? found->get<int>() : -1;
}

}  // namespace kvscope::protocol
