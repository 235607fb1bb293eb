#include "app/studies/sweep/eval_study.h"

#include <algorithm>
#include <filesystem>

#include "app/studies/sweep/sweep_table.h"
#include "engine/core/support/json_fields.h"

namespace kvscope::app {
namespace {

/// With several lengths as a list.
std::string recipe_of(const EvalRequest& request, std::span<const EvalResult> results) {
  nlohmann::ordered_json recipe = json_of_fields(request);
  if (results.size() == 1) return recipe.dump();
  recipe["length"] = nlohmann::ordered_json::array();
  for (const EvalResult& result : results) recipe["length"].push_back(result.facts.length);
  return recipe.dump();
}

/// The sweep that asks the same: all policies under the same gates, texts at one chunk and tasks at one seed. Two groups, or one,
/// for each result.
SweepPlan plan_of(EvalRequest request, std::span<const EvalResult> results) {
  request.done.clear();
  SweepPlan plan{.recipe = recipe_of(request, results), .model = request.model, .request = request};
  const auto is_text = [&](const std::string& item) {
    return std::ranges::any_of(request.texts,
                               [&](const auto& text) { return std::filesystem::path(text).filename() == item; });
  };
  plan.request.tasks = results.front().facts.items;  // the engine chose them where none was named
  std::erase_if(plan.request.tasks, is_text);
  for (const auto& [facts, answers] : results) {
    SweepGroup group{.chunk = request.chunk, .seed = request.seed, .asks_dense = true};
    if (results.size() > 1) group.length = facts.length;
    for (std::size_t i = 1; i < facts.policies.size(); ++i) {
      group.points.push_back(plan.points.size());
      plan.points.push_back({.policy = facts.policies[i]});
    }
    for (const bool of_texts : {false, true}) {
      group.is_texts = of_texts;
      if (!plan.items(group).empty()) plan.groups.push_back(group);
    }
  }
  return plan;
}

}  // namespace

StudyTable eval_study(const EvalRequest& request, std::span<const EvalResult> results) {
  const SweepPlan plan = plan_of(request, results);
  SweepJournal journal({}, {}, plan);
  for (const SweepGroup& group : plan.groups) {
    for (const auto& [facts, answers] : results) {
      if (group.length != 0 && group.length != facts.length) continue;
      journal.begin(group, facts);
      for (const EvalAnswer& answer : answers)
        if (answer.is_text == group.is_texts) journal.append(group, answer);
    }
  }
  StudyTable table = sweep_table(plan, journal, kv_bytes_of_token(plan, journal));
  table.kind = kEvalStudy;
  std::erase_if(table.columns, [](const StudyColumn& column) {
    return column.name == "gate" || column.name == "curve" || column.name == "series";
  });
  return table;
}

}  // namespace kvscope::app
