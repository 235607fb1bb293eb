#include "app/studies/hybrid/hybrid_export.h"

#include <algorithm>

#include "engine/core/support/file.h"
#include "engine/core/support/version.h"

namespace kvscope::app {

nlohmann::ordered_json hybrid_facts(const HybridPlan& plan, const HybridEngine& engine) {
  nlohmann::ordered_json facts = engine.facts();
  facts["program"] = std::string(version()) + " (" + std::string(git_revision()) + ")";
  facts["signal"] = plan.signal_text;
  facts["context"] = engine.cache().context;
  facts["layers"] = engine.shape().n_layers;
  facts["kv_heads"] = engine.shape().n_kv_heads;
  if (plan.greedy) facts["greedy_pieces"] = plan.greedy_pieces;
  const std::optional<std::string> why_not = plan.again ? why_not_again(plan.signal) : "it was not requested";
  facts["again"] = why_not ? "not measured: " + *why_not : "measured";
  return facts;
}

std::vector<std::string> export_point(const HybridPlan& plan, const HybridEngine& engine, const HybridStudy& study,
                                      const StudyTable& table, const std::string& label) {
  const auto& labels = table.texts("point", plan.output);
  const auto row = static_cast<std::size_t>(std::ranges::find(labels, label) - labels.begin());
  const HybridPoint& point = study.points[row];
  const ModelInfo& model = engine.model();
  const nlohmann::ordered_json facts = {{"point", point_json(table, row)},
                                        {"facts", nlohmann::ordered_json::parse(table.facts)}};
  const HeadChoice choice{.selection = {.n_layers = model.n_layers,
                                        .n_kv_heads = model.n_kv_heads,
                                        .full = std::vector<float>(point.heads.begin(), point.heads.end()),
                                        .coverage = table.numbers("coverage", plan.output)[row],
                                        .rule = point.strategy},
                          .sizes = {engine.cache().n_sink, engine.cache().window},
                          .origin = {.model = model.name,
                                     .weights_hash = model.weights_hash,
                                     .signal = plan.signal_text,
                                     .n_runs = engine.n_pieces(),
                                     .value = study.signal.mean(),
                                     .facts = facts.dump()},
                          .group_size = model.n_kv_heads > 0 ? model.n_heads / model.n_kv_heads : 0};
  std::vector<std::string> losses = export_heads(plan.exports, choice, plan.overwrite);
  for (const HeadTarget& target : plan.exports) {
    if (target.format->path == "FOLDER")
      write_file_atomic(target.path / "study.json", facts.dump(2) + "\n", plan.overwrite);
  }
  return losses;
}

}  // namespace kvscope::app
