#pragma once
// One builder per event of protocol.h. The engine, the fake engine and the tests make their events here and nowhere
// else, so that they cannot differ; apply_event() reads what these write.

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/protocol/protocol.h"
#include "engine/core/support/error.h"

namespace kvscope::protocol {

/// The greeting, first of all messages; it has no id.
nlohmann::json hello(std::string_view engine_version, std::string_view torch_version, bool cuda,
                     std::string_view device);

/// A run begins: its prompt as tokens. ids and pieces are equally long; prompt_len is their length.
/// scorer: what gives this run's scores; its text is empty for none. local_heads: as RunRecord has them.
nlohmann::json started(int id, int n_positions, std::span<const std::int32_t> ids, const BytePool& pieces,
                       const PolicySpec& policy, const ScorerInfo& scorer = {}, const OracleSpec& oracle = {},
                       std::span<const std::uint8_t> local_heads = {});

/// Parameters of a run that goes on were changed, from query q on.
nlohmann::json policy_changed(int id, std::int32_t q, const PolicySpec& policy);

// step: to_json(StepFacts, id) of protocol.h

/// Recall while the run goes on. recall: [n_layers][n_kv_heads], recall(q) of Metric::recall at q = horizon - 1 (NaN
/// where it is 0 / 0).
nlohmann::json oracle(int id, int horizon, std::span<const float> recall);
/// The last one of a run, with the mass itself. Every row of future_mass is at least `horizon` long; what is beyond it
/// is not sent. The client makes the oracle's lifetimes from it.
nlohmann::json oracle_final(int id, int horizon, std::span<const float> recall, const HeadSeries<float>& future_mass);

/// phase: "load", "prefill", "decode", "oracle" ...; max 0 if the end is not known.
nlohmann::json progress(int id, std::string_view phase, double value, double max, std::string_view text = {});
/// One line of a job's result.
nlohmann::json row(int id, std::string_view text, nlohmann::json data);
/// A line for the log panel. id -1: of no request.
nlohmann::json log(int id, std::string_view text);

/// The end of a request that was served: `fields` (an object) beside type and id.
nlohmann::json done(int id, nlohmann::json fields = nlohmann::json::object());
/// The end of a load.
nlohmann::json done_load(int id, const ModelInfo& model, double load_s);
/// The end of a run. `text`: the answer, bytes that are not UTF-8 replaced. status: complete, cancelled or failed.
nlohmann::json done_run(int id, RunStatus status, const RunTimings& timings, std::string_view text);
/// The end of a scoring. logprobs: natural logarithms, NaN for the first; nll: mean over the others, nats per token.
nlohmann::json done_score(int id, std::span<const std::int32_t> ids, std::span<const float> logprobs, double nll);
/// The same of a scoring with choices. greedy: as long as ids; density: [n_layers][n_kv_heads].
nlohmann::json done_score(int id, std::span<const std::int32_t> ids, std::span<const float> logprobs, double nll,
                          std::span<const std::int32_t> greedy, std::span<const float> density);

/// The end of a request that was not served. id -1: of no request.
nlohmann::json error_event(int id, const Error& error);
/// What error_event() wrote, to be thrown or shown on the client's side. Never fails: a field that is missing or of
/// another type is left empty.
Error error_from_event(const nlohmann::json& event);

nlohmann::json to_json(const RunTimings& timings);
RunTimings timings_from_json(const nlohmann::json& json);

}  // namespace kvscope::protocol
