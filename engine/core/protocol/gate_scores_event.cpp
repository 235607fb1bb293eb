// The end of a gate_scores request.
#include <algorithm>

#include "engine/core/protocol/events.h"
#include "engine/core/protocol/fields.h"
#include "engine/core/record/check.h"

namespace kvscope::protocol {

using nlohmann::json;

json done_gate_scores(int id, const ScoresOfGates& gates, int n_tokens) {
  json list = json::array();
  for (const GateScores& one : gates) {
    std::vector<float> all;
    for (int layer = 0; layer < one.scores.n_layers(); ++layer) {
      for (int head = 0; head < one.scores.n_kv_heads(); ++head) {
        const std::vector<float>& row = one.scores.row(layer, head);
        all.insert(all.end(), row.begin(), row.end());
      }
    }
    json object = to_json(one.gate);
    object["text"] = one.text;
    object["log_gamma"] = pack(one.log_gamma);
    object["scores"] = pack(all);
    list.push_back(std::move(object));
  }
  return done(id, {{"n_tokens", n_tokens}, {"scorers", std::move(list)}});
}

ScoresOfGates gate_scores_from_event(const json& event, const ModelInfo& model) {
  const std::int64_t n_tokens = integer(event, "n_tokens", 1, kMaxPositions);
  const std::int64_t wanted = n_tokens * model.n_layers * model.n_kv_heads;
  ScoresOfGates gates;
  for (const json& object : field(event, "scorers", json::value_t::array)) {
    GateScores& one = gates.emplace_back();
    one.gate = gate_from_json(object);
    one.text = text(object, "text");
    one.log_gamma = unpack_f32(object, "log_gamma");
    const std::vector<float> all = unpack_f32(object, "scores");
    if (std::ssize(all) != wanted) bad_field(event, "scores", std::to_string(all.size()), std::to_string(wanted));
    one.scores = HeadSeries<float>(model.n_layers, model.n_kv_heads);
    auto from = all.begin();
    for (int layer = 0; layer < model.n_layers; ++layer) {
      for (int head = 0; head < model.n_kv_heads; ++head, from += n_tokens)
        one.scores.row(layer, head).assign(from, from + n_tokens);
    }
  }
  try {
    check_gate_scores(gates, model, static_cast<int>(n_tokens));
  } catch (const RunFault& fault) {
    bad_field(event, fault.parts().where, fault.parts().found, fault.parts().expected);
  }
  return gates;
}

}  // namespace kvscope::protocol
