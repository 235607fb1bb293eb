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

std::size_t bulk_bytes(const OutputErrorFacts& facts) {
  std::size_t n_rows = 0;
  visit_fields(facts.error, [&](const char*, const HeadSeries<float>& series, auto) {
    n_rows += static_cast<std::size_t>(series.n_layers()) * static_cast<std::size_t>(series.n_kv_heads());
  });
  return n_rows * static_cast<std::size_t>(facts.error.n_queries()) * sizeof(float);
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
