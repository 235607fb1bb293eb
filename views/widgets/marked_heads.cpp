#include "views/widgets/marked_heads.h"

#include <cmath>
#include <limits>

#include "engine/core/study/measure/common_oracle.h"
#include "views/figure/figure_builder.h"

namespace kvscope::views {
namespace {

std::vector<MarkedHeads::Row> rows_of(const std::optional<CommonOracle>& common, const RunRecord& run, Metric chosen,
                                      std::int32_t q, const HeadSet& heads) {
  std::vector<MarkedHeads::Row> rows;
  for (const MetricInfo& info : metric_list()) {
    if (info.needs_oracle && info.metric != chosen) continue;
    // As on the map. Of a run that goes on its own recall is what the engine said last.
    const bool judged = common && info.needs_oracle;
    const HeadMap map = judged ? common->metric(run, info.metric, q) : head_metric(run, info.metric, q);
    const double marked = mean_over(map, heads);
    if (!std::isnan(marked))
      rows.push_back(
          {std::string(info.title), info.title_with_base(), format_number(marked), format_number(mean(map))});
  }
  return rows;
}

}  // namespace

double mean_over(const HeadMap& map, const HeadSet& heads) {
  double sum = 0, weight = 0;
  for (const KvHead head : heads.within(map.n_layers, map.n_kv_heads)) {
    const float v = map.at(head.layer, head.kv_head);
    if (std::isnan(v)) continue;
    const double w = map.weight(static_cast<std::size_t>(head.layer * map.n_kv_heads + head.kv_head));
    sum += w * v, weight += w;
  }
  return weight > 0 ? sum / weight : std::numeric_limits<double>::quiet_NaN();
}

std::optional<MarkedHeads::Rows> MarkedHeads::rows(const ViewContext& context, const ShownRun* b, std::int32_t q_b) {
  const Key key{RunKey(context.a), RunKey(b), context.q(), q_b, context.selection->metric, context.marked_heads()};
  return debounced_.of(key, [run = context.a->run, other = b != nullptr ? b->run : nullptr, key] {
    const auto common = other ? CommonOracle::of(*run, *other) : std::nullopt;
    Rows made{.a = rows_of(common, *run, key.metric, key.q, key.heads), .b = {}};
    if (other) made.b = rows_of(common, *other, key.metric, key.q_b, key.heads);
    return made;
  });
}

}  // namespace kvscope::views
