// What the end of a load says of the model's gates: numbers alone, weights stay with the engine.

#include "engine/core/protocol/events.h"
#include "engine/core/protocol/fields.h"

namespace kvscope::protocol {

using nlohmann::json;

namespace {

constexpr double kMostThreshold = 1e9;

json numbers_json(const GateNumbers& numbers) {
  return {{"threshold", numbers.threshold},
          {"strict", numbers.strict},
          {"window", numbers.window},
          {"n_sink", numbers.n_sink},
          {"pool_interval", numbers.pool_interval},
          {"has_decay", numbers.has_decay},
          {"share", numbers.share}};
}

GateNumbers numbers_from_json(const json& object) {
  return {.threshold = number(object, "threshold", -kMostThreshold, kMostThreshold),
          .strict = boolean(object, "strict"),
          .window = static_cast<int>(integer(object, "window", 0, kMaxPositions)),
          .n_sink = static_cast<int>(integer(object, "n_sink", 0, kMaxPositions)),
          .pool_interval = static_cast<int>(integer(object, "pool_interval", 0, kMaxPositions)),
          .has_decay = boolean(object, "has_decay"),
          .share = number(object, "share", 0, 1)};
}

}  // namespace

json to_json(const GateOfModel& gate) {
  json object = {{"kind", gate.kind}};
  if (gate.numbers) object["numbers"] = numbers_json(*gate.numbers);
  if (gate.delay >= 0) object["delay"] = gate.delay;
  return object;
}

GateOfModel gate_from_json(const json& object) {
  GateOfModel gate{.kind = text(object, "kind"), .numbers = {}};
  if (object.contains("numbers")) gate.numbers = numbers_from_json(field(object, "numbers", json::value_t::object));
  if (object.contains("delay")) gate.delay = static_cast<int>(integer(object, "delay", 0, kMaxPositions));
  return gate;
}

json to_json(const GatesOfModel& gates) {
  json list = json::array();
  for (const GateOfModel& gate : gates.scorers) list.push_back(to_json(gate));
  json object = {{"scorers", list}};
  if (gates.heads) object["heads"] = numbers_json(*gates.heads);
  return object;
}

GatesOfModel gates_from_event(const json& event) {
  GatesOfModel gates;
  if (!event.contains("gates")) return gates;
  const json& object = field(event, "gates", json::value_t::object);
  for (const json& gate : field(object, "scorers", json::value_t::array)) gates.scorers.push_back(gate_from_json(gate));
  if (object.contains("heads")) gates.heads = numbers_from_json(field(object, "heads", json::value_t::object));
  return gates;
}

}  // namespace kvscope::protocol
