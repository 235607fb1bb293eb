#include <algorithm>

#include "engine/core/protocol/events.h"
#include "engine/core/protocol/fields.h"

namespace kvscope::protocol {

using nlohmann::json;

json to_json(const OutputErrorFacts& facts, int id) {
  json event = {{"type", "output_error"}, {"id", id}, {"n_queries", facts.error.n_queries()}};
  visit_fields(facts.error, [&](const char* name, const HeadSeries<float>& series, auto) {
    std::vector<float> all;
    for (int layer = 0; layer < series.n_layers(); ++layer) {
      for (int head = 0; head < series.n_kv_heads(); ++head) {
        const std::vector<float>& row = series.row(layer, head);
        all.insert(all.end(), row.begin(), row.end());
      }
    }
    event[name] = pack(all);
  });
  return event;
}

OutputErrorFacts output_error_facts_from_json(const json& event, const ModelInfo& model) {
  OutputErrorFacts facts{OutputError(model.n_layers, model.n_kv_heads)};
  const std::int64_t n = integer(event, "n_queries", 1, kMaxPositions);
  visit_fields(facts.error, [&](const char* name, HeadSeries<float>& series, auto) {
    const std::vector<float> all = unpack_f32(event, name);
    const std::int64_t expected = static_cast<std::int64_t>(series.n_layers()) * series.n_kv_heads() * n;
    if (std::ssize(all) != expected) {
      bad_field(event, name, std::to_string(all.size()) + " numbers",
                std::to_string(expected) + ", rows times n_queries");
    }
    auto from = all.begin();
    for (int layer = 0; layer < series.n_layers(); ++layer) {
      for (int head = 0; head < series.n_kv_heads(); ++head, from += n) {
        series.row(layer, head).assign(from, from + n);
      }
    }
  });
  return facts;
}

}  // namespace kvscope::protocol
