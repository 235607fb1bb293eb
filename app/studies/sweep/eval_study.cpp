#include "app/studies/sweep/eval_study.h"

#include <algorithm>
#include <filesystem>

#include "app/studies/sweep/sweep_table.h"
#include "engine/core/support/json_fields.h"

namespace kvscope::app {
namespace {

/// The sweep that asks the same: all policies under the same gates, texts at one chunk and tasks at one seed.
SweepPlan plan_of(EvalRequest request, const EvalFacts& facts) {
  request.done.clear();
  SweepPlan plan{.recipe = json_of_fields(request).dump(), .model = request.model, .request = request};
  const auto is_text = [&](const std::string& item) {
    return std::ranges::any_of(request.texts,
                               [&](const auto& text) { return std::filesystem::path(text).filename() == item; });
  };
  plan.request.tasks = facts.items;  // the engine chose them where none was named
  std::erase_if(plan.request.tasks, is_text);
  SweepGroup group{.chunk = request.chunk, .seed = request.seed, .asks_dense = true};
  for (std::size_t i = 1; i < facts.policies.size(); ++i) {
    group.points.push_back(plan.points.size());
    plan.points.push_back({.policy = facts.policies[i]});
  }
  for (const bool of_texts : {false, true}) {
    group.is_texts = of_texts;
    if (!plan.items(group).empty()) plan.groups.push_back(group);
  }
  return plan;
}

}  // namespace

StudyTable eval_study(const EvalRequest& request, const EvalFacts& facts, std::span<const EvalAnswer> answers) {
  const SweepPlan plan = plan_of(request, facts);
  SweepJournal journal({}, {}, plan);
  for (const SweepGroup& group : plan.groups) {
    journal.begin(group, facts);
    for (const EvalAnswer& answer : answers)
      if (answer.is_text == group.is_texts) journal.append(group, answer);
  }
  StudyTable table = sweep_table(plan, journal, kv_bytes_of_token(plan, journal));
  table.kind = kEvalStudy;
  std::erase_if(table.columns, [](const StudyColumn& column) {
    return column.name == "gate" || column.name == "curve" || column.name == "series";
  });
  return table;
}

}  // namespace kvscope::app
