#include "views/widgets/marked_heads.h"

#include <cmath>
#include <limits>

#include "views/figure/figure_builder.h"

namespace kvscope::views {
namespace {

std::string number(double v) { return std::isnan(v) ? std::string("–") : format_number(v, 3); }

}  // namespace

double mean_over(const HeadMap& map, const HeadSet& heads) {
  double sum = 0;
  int n = 0;
  for (const KvHead head : heads.within(map.n_layers, map.n_kv_heads)) {
    if (const float v = map.at(head.layer, head.kv_head); !std::isnan(v)) sum += static_cast<double>(v), ++n;
  }
  return n > 0 ? sum / n : std::numeric_limits<double>::quiet_NaN();
}

std::optional<MarkedHeads::Rows> MarkedHeads::rows(const ViewContext& context) {
  const Key key{RunKey(context.a), context.q(), context.selection->metric, context.marked_heads()};
  return aside_.of(key, [run = context.a->run, key] {
    Rows made;
    for (const MetricInfo& info : metric_list()) {
      if (info.needs_oracle && info.metric != key.metric) continue;
      const HeadMap map = head_metric(*run, info.metric, key.q);
      const double marked = mean_over(map, key.heads);
      if (!std::isnan(marked)) made.push_back({std::string(info.title), number(marked), number(mean(map))});
    }
    return made;
  });
}

}  // namespace kvscope::views
