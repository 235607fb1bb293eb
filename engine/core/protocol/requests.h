#pragma once
// What the client asks, one struct a request of protocol.h. RunRequest, ScoreRequest, TokenAttentionRequest,
// QueryAttentionRequest and GateScoresRequest are the record's.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "engine/core/record/gate_scores.h"
#include "engine/core/record/query_attention.h"
#include "engine/core/record/run_request.h"
#include "engine/core/record/token_attention.h"

namespace kvscope::protocol {

using kvscope::GateScoresRequest;
using kvscope::QueryAttentionRequest;
using kvscope::ScoreRequest;
using kvscope::TokenAttentionRequest;

struct LoadRequest {
  std::string model;  // path, as the engine's machine has it
  std::string device = "auto", dtype = "auto";
  std::vector<std::string> gates;
};

struct JobRequest {
  std::string job;
  nlohmann::json args = nlohmann::json::object();
};

struct DoctorRequest {};

/// Other parameters for a run that goes on. A text, read where the run is: what is wrong with it is a line of its log.
struct PolicyRequest {
  int target = -1;
  std::string policy;
};

struct CancelRequest {
  int target = -1;
};

struct QuitRequest {};

using Request = std::variant<LoadRequest, RunRequest, ScoreRequest, TokenAttentionRequest, QueryAttentionRequest,
                             GateScoresRequest, JobRequest, DoctorRequest, PolicyRequest, CancelRequest, QuitRequest>;

nlohmann::json to_json(const Request& request, int id);
/// Throws Error that names message and field, or the types that there are.
Request request_from_json(const nlohmann::json& message);
/// "id" of a message, -1 if it has none.
int message_id(const nlohmann::json& message);

}  // namespace kvscope::protocol
