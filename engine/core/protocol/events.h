#pragma once
// One builder per event of protocol.h. The engine, the fake engine and the tests make their events here and nowhere
// else, so that they cannot differ; apply_event() reads what these write.

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/protocol/protocol.h"
#include "engine/core/record/gate_scores.h"
#include "engine/core/support/error.h"

namespace kvscope::protocol {

/// Throws Error (resource) unless the fields that events share (id, version, text, phase, value ...) have their types,
/// as far as they are there: who hands events on checks them once, and whoever reads these fields may rely on it.
void check_event(const nlohmann::json& event);

/// The greeting, first of all messages; it has no id.
nlohmann::json hello(std::string_view engine_version, std::string_view torch_version, bool cuda,
                     std::string_view device);

nlohmann::json to_json(const RunStarted& started, int id);
/// Decisions are spread.
nlohmann::json to_json(StepFacts facts, int id);
nlohmann::json to_json(const PolicyChange& change, int id);
/// Every row of future_mass is at least `horizon` long; what is beyond it is not sent.
nlohmann::json to_json(const OracleFacts& facts, int id);
nlohmann::json to_json(const OutputErrorFacts& facts, int id);
/// Bytes of the answer that are not UTF-8 are replaced.
nlohmann::json to_json(const RunEnded& ended, int id);

/// Bytes of the message of these facts, but for the few that do not grow with the run.
std::size_t bulk_bytes(const StepFacts& facts);
std::size_t bulk_bytes(const OracleFacts& facts);
std::size_t bulk_bytes(const OutputErrorFacts& facts);

/// `own`: what the run that the event belongs to was asked under, see PolicySpec::parse().
RunStarted started_from_json(const nlohmann::json& event, const DeclaredPolicy* own = nullptr);
StepFacts step_facts_from_json(const nlohmann::json& event);
PolicyChange policy_change_from_json(const nlohmann::json& event, const DeclaredPolicy* own = nullptr);
OracleFacts oracle_facts_from_json(const nlohmann::json& event, const ModelInfo& model);
OutputErrorFacts output_error_facts_from_json(const nlohmann::json& event, const ModelInfo& model);
RunEnded run_ended_from_json(const nlohmann::json& event);

/// phase: "load", "prefill", "decode", "oracle" ...; max 0 if the end is not known.
nlohmann::json progress(int id, std::string_view phase, double value, double max, std::string_view text = {});
/// One line of a job's result.
nlohmann::json row(int id, std::string_view text, nlohmann::json data);
/// A line for the log panel. id -1: of no request.
nlohmann::json log(int id, std::string_view text);
/// What a model's files say that makes its numbers doubtful: one line, for a person to read.
nlohmann::json warning(int id, std::string_view text);

/// The end of a request that was served: `fields` (an object) beside type and id.
nlohmann::json done(int id, nlohmann::json fields = nlohmann::json::object());
/// One scorer as the ends of load and gate_scores have it.
nlohmann::json to_json(const GateOfModel& gate);
GateOfModel gate_from_json(const nlohmann::json& gate);
/// The end of a load.
nlohmann::json done_load(int id, const ModelInfo& model, double load_s, const GatesOfModel& gates = {});
/// What it says. Throws Error.
ModelInfo model_from_event(const nlohmann::json& event);
nlohmann::json to_json(const GatesOfModel& gates);
/// None of an engine that says nothing of them.
GatesOfModel gates_from_event(const nlohmann::json& event);
/// Whether a `done`, of whatever request, says that it was cancelled.
bool was_cancelled(const nlohmann::json& event);

struct DoctorCheck {
  std::string name;
  bool ok = false;
  std::string text, hint;
};
/// What the end of a `doctor` request says. Throws Error.
std::vector<DoctorCheck> doctor_checks_from_event(const nlohmann::json& event);

/// The rules of heads, in `started` and, where scores divided a budget, in the prompt's `step` (heads_event.cpp). The latter
/// reads event["heads"] and throws Error.
nlohmann::json to_json(const HeadRules& heads);
HeadRules head_rules_from_json(const nlohmann::json& event);

/// The end of a scoring, and what its event says. The latter throws Error if that does not fit together.
nlohmann::json done_score(int id, const ScoreFacts& facts);
ScoreFacts score_from_event(const nlohmann::json& event);

/// The same of a pass that looked at the attention of chosen tokens.
nlohmann::json done_token_attention(int id, const TokenAttention& attention);
TokenAttention token_attention_from_event(const nlohmann::json& event);
/// The same of a pass that looked at what one query gives.
nlohmann::json done_query_attention(int id, const QueryAttention& attention);
QueryAttention query_attention_from_event(const nlohmann::json& event);
/// gate_scores_event.cpp; `model` gives the shape.
nlohmann::json done_gate_scores(int id, const ScoresOfGates& gates, int n_tokens);
ScoresOfGates gate_scores_from_event(const nlohmann::json& event, const ModelInfo& model);

/// The end of a request that was not served. id -1: of no request.
nlohmann::json error_event(int id, const Error& error);
/// What error_event() wrote, to be thrown or shown on the client's side. Never fails: a field that is missing or of
/// another type is left empty.
Error error_from_event(const nlohmann::json& event);

nlohmann::json to_json(const RunTimings& timings);
RunTimings timings_from_json(const nlohmann::json& json);

}  // namespace kvscope::protocol
