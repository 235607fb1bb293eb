// The end of a gate_scores request.
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/fields.h"
#include "engine/core/record/check.h"

namespace kvscope::protocol {

using nlohmann::json;

json done_gate_scores(int id, const ScoresOfGates& gates, int n_tokens) {
  json list = json::array();
  for (const GateScores& one : gates) {
    json object = to_json(one.gate);
    object["text"] = one.text;
    object["name"] = one.name;
    object["log_gamma"] = pack(one.log_gamma);
    object["scores"] = pack_rows(one.scores);
    list.push_back(std::move(object));
  }
  return done(id, {{"n_tokens", n_tokens}, {"scorers", std::move(list)}});
}

ScoresOfGates gate_scores_from_event(const json& event, const ModelInfo& model) {
  const std::int64_t n_tokens = integer(event, "n_tokens", 1, kMaxPositions);
  ScoresOfGates gates;
  for (const json& object : field(event, "scorers", json::value_t::array)) {
    GateScores& one = gates.emplace_back();
    one.gate = gate_from_json(object);
    one.text = text(object, "text");
    one.name = text_or_empty(object, "name");
    one.log_gamma = unpack_f32(object, "log_gamma");
    one.scores = unpack_rows(object, "scores", model.n_layers, model.n_kv_heads, n_tokens);
  }
  try {
    check_gate_scores(gates, model, static_cast<int>(n_tokens));
  } catch (const RunFault& fault) {
    bad_field(event, fault.parts().where, fault.parts().found, fault.parts().expected);
  }
  return gates;
}

}  // namespace kvscope::protocol
