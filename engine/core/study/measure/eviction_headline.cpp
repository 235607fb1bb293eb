#include "engine/core/study/measure/eviction_headline.h"

#include <cmath>
#include <vector>

#include "engine/core/study/measure/oracle.h"

namespace kvscope {
namespace {

/// Of one token, over the heads that were looked at.
struct Loss {
  double mass = 0;
  int n_heads = 0, head = -1;  // flat
  float most = -1;             // the mass in `head`
};

double mass_of(const std::vector<float>& row, std::size_t t) {
  return t < row.size() && !std::isnan(row[t]) ? static_cast<double>(row[t]) : 0;
}

}  // namespace

std::string wrong_share_text(const EvictionHeadline& found) {
  const double percent = std::round(100 * found.wrong_share());
  if (percent == 0 && found.wrong > 0) return "< 1 %";
  if (percent == 100 && found.wrong < found.judged) return "> 99 %";
  return std::to_string(std::lround(percent)) + " %";
}

std::optional<EvictionHeadline> eviction_headline(const RunRecord& run) {
  const auto verdicts = eviction_verdicts(run);
  const int kv_heads = run.model.n_kv_heads;
  EvictionHeadline found;
  std::vector<Loss> losses(run.ids.size());
  double most_of_head = 0;  // future attention that found.worst has lost
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const int flat = static_cast<int>(i);
    EvictionHeadline::Head head{.layer = flat / kv_heads, .kv_head = flat % kv_heads};
    const std::vector<float>& masses = run.future_mass.row(head.layer, head.kv_head);
    double of_head = 0;
    for (std::size_t t = 0; t < verdicts[i].size(); ++t) {
      if (verdicts[i][t].verdict == EvictionVerdict::unknown) continue;
      ++head.judged;
      if (verdicts[i][t].verdict != EvictionVerdict::wrong) continue;
      ++head.wrong;
      const double mass = mass_of(masses, t);
      of_head += mass;
      Loss& loss = losses[t];
      loss.mass += mass, ++loss.n_heads;
      if (mass > loss.most) loss.most = static_cast<float>(mass), loss.head = flat;
    }
    found.judged += head.judged, found.wrong += head.wrong;
    const std::int64_t most = found.worst ? found.worst->wrong : 0;
    if (head.wrong > most || (head.wrong == most && head.wrong > 0 && of_head > most_of_head))
      found.worst = head, most_of_head = of_head;
  }
  if (found.judged == 0) return {};
  for (std::size_t t = 0; t < losses.size(); ++t) {
    const Loss& loss = losses[t];
    if (loss.n_heads == 0 || (found.costliest && loss.mass <= found.costliest->mass)) continue;
    found.costliest = {.t = static_cast<std::int32_t>(t),
                       .mass = loss.mass,
                       .n_heads = loss.n_heads,
                       .layer = loss.head / kv_heads,
                       .kv_head = loss.head % kv_heads};
  }
  return found;
}

}  // namespace kvscope
