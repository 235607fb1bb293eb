#include "engine/core/record/request_json.h"

#include "engine/core/record/run_fields.h"
#include "engine/core/support/checked_fields.h"

namespace kvscope {

using nlohmann::json;
using namespace fields;

json changes_json(const std::vector<PolicyChange>& changes) {
  json list = json::array();
  for (const PolicyChange& change : changes) list.push_back({{"q", change.q}, {"policy", change.policy.written()}});
  return list;
}

std::vector<PolicyChange> changes_of_json(const json& list, const DeclaredPolicy* own) {
  std::vector<PolicyChange> changes;
  for (const json& one : list) {
    changes.push_back(
        {static_cast<std::int32_t>(integer(one, "q", 0, kMaxPositions)), PolicySpec::parse(text(one, "policy"), own)});
  }
  return changes;
}

json request_json(const RunRequest& r) {
  json j = {{"raw", r.raw},
            {"policy", r.policy.written()},
            {"max_tokens", r.max_tokens},
            {"sampling", fields_to_json(r.sampling)},
            {"oracle", r.oracle},
            {"oracle_spec", r.oracle_spec.to_string()},
            {"changes", changes_json(r.changes)},
            {"stop_at_eos", r.stop_at_eos}};
  if (r.output_error) j["output_error"] = true;
  if (!r.stop.empty()) j["stop"] = r.stop;
  if (r.chat.thinking) j["thinking"] = *r.chat.thinking;
  if (!r.chat.date.empty()) j["date"] = r.chat.date;
  for (const ChatMessage& message : r.messages) {
    j["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  if (r.draw_on) j["draw_on"] = true;
  if (r.chunk > 0) j["chunk"] = r.chunk;
  return j;
}

RunRequest request_of_json(const json& j, const DeclaredPolicy* own) {
  RunRequest r;
  r.raw = boolean(j, "raw");
  r.policy = PolicySpec::parse(text(j, "policy"), own);
  r.max_tokens = static_cast<int>(integer(j, "max_tokens", 0, kMaxPositions));
  r.sampling = fields_from_json<SamplingSpec>(field(j, "sampling", json::value_t::object));
  r.oracle = boolean(j, "oracle");
  if (j.contains("oracle_spec")) r.oracle_spec = OracleSpec::parse(text(j, "oracle_spec"));
  r.output_error = j.contains("output_error") && boolean(j, "output_error");
  if (j.contains("changes")) r.changes = changes_of_json(field(j, "changes", json::value_t::array), own);
  r.stop_at_eos = boolean(j, "stop_at_eos");
  r.stop = texts(j, "stop");
  r.draw_on = j.contains("draw_on") && boolean(j, "draw_on");
  if (j.contains("chunk")) r.chunk = static_cast<int>(integer(j, "chunk", 0, kMaxPositions));
  if (j.contains("thinking")) r.chat.thinking = boolean(j, "thinking");
  if (j.contains("date")) r.chat.date = text(j, "date");
  if (j.contains("messages")) {
    for (const json& message : field(j, "messages", json::value_t::array)) {
      r.messages.push_back({text(message, "role"), text(message, "content")});
    }
  }
  return r;
}

}  // namespace kvscope
