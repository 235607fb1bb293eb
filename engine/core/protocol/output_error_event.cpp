#include "engine/core/protocol/events.h"
#include "engine/core/protocol/fields.h"

namespace kvscope::protocol {

using nlohmann::json;

json to_json(const OutputErrorFacts& facts, int id) {
  json event = {{"type", "output_error"}, {"id", id}, {"n_queries", facts.error.n_queries()}};
  visit_fields(facts.error,
               [&](const char* name, const HeadSeries<float>& series, auto) { event[name] = pack_rows(series); });
  return event;
}

OutputErrorFacts output_error_facts_from_json(const json& event, const ModelInfo& model) {
  OutputErrorFacts facts{OutputError(model.n_layers, model.n_kv_heads)};
  const std::int64_t n = integer(event, "n_queries", 1, kMaxPositions);
  visit_fields(facts.error, [&](const char* name, HeadSeries<float>& series, auto) {
    series = unpack_rows(event, name, series.n_layers(), series.n_kv_heads(), n);
  });
  return facts;
}

}  // namespace kvscope::protocol
