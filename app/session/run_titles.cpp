#include "app/session/run_titles.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>
#include <tuple>

#include "engine/core/policy/allocation.h"
#include "engine/core/policy/policy.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/record/run_gate.h"
#include "engine/core/support/text.h"
#include "views/figure/token_facts.h"

namespace kvscope::app {
namespace {

/// Of each policy the parameters that its runs do not agree in.
using Differing = std::map<std::string, std::set<std::string_view>, std::less<>>;

Differing differing_parameters(const std::vector<RunEntry>& runs) {
  Differing differing;
  std::map<std::string, const PolicySpec*, std::less<>> first;
  for (const RunEntry& entry : runs) {
    const PolicySpec& policy = entry.run->policy;
    const PolicyInfo* info = find_policy(policy);
    const PolicySpec& other = *first.try_emplace(policy.name, &policy).first->second;
    if (info == nullptr || &other == &policy) continue;
    for (const ParameterInfo& parameter : info->parameters) {
      const auto mine = policy.values.find(parameter.name), its = other.values.find(parameter.name);
      if (mine != policy.values.end() && its != other.values.end() && mine->second != its->second)
        differing[policy.name].insert(parameter.name);
    }
  }
  return differing;
}

std::string budget_words(const BudgetSpec& budget) {
  char number[48];
  const bool keep = budget.kind == BudgetSpec::Kind::keep;
  const char* format = budget.kind == BudgetSpec::Kind::tokens ? " %.0f tokens" : keep ? " %.4g %%" : " %.4g×";
  std::snprintf(number, sizeof number, format, keep ? 100 * budget.value : budget.value);
  return number;
}

// "KVpop 25 % (kvpop-mlstm), window 32"
std::string policy_words(const RunRecord& run, const Differing& differing) {
  const PolicySpec& policy = run.policy;
  if (!run.changes.empty()) return method_name(policy) + " " + views::policy_history(run);
  std::string text = method_name(policy);
  if (policy.budget) text += budget_words(*policy.budget);
  if (policy.budget && takes_budgets(policy) && !run.budgets().empty()) text += ", given budgets";
  if (const std::string gate = gate_of(run); !gate.empty()) text += " (" + gate + ")";
  const PolicyInfo* info = find_policy(policy);
  // Which heads are global no parameter says where a directory does: two choices differ in their number at least.
  if (const auto local = run.local_heads(); info != nullptr && !local.empty() && policy_of(policy).reads_heads(policy))
    text +=
        ", " + std::to_string(std::ranges::count(local, 0)) + " of " + std::to_string(local.size()) + " heads global";
  const auto differs = differing.find(policy.name);
  for (const ParameterInfo& parameter : info ? info->parameters : std::span<const ParameterInfo>()) {
    const auto it = policy.values.find(parameter.name);
    if (it == policy.values.end() || policy.is_replaced(parameter.name)) continue;
    const bool told = differs != differing.end() && differs->second.contains(parameter.name);
    if (!told && it->second == parameter.default_value) continue;
    text += ", " + std::string(parameter.name) + " " + brief_value(parameter, it->second);
  }
  return text;
}

const std::string& key_of(const RunRecord& run) {
  static const std::string none;
  return run.asked == nullptr ? none : run.asked->key;
}

/// The run of the list whose tokens it was given, by its key; of a replay whose source no record names, the last run before it
/// with the same tokens. 0: it is not in the list.
int source_of(const std::vector<RunEntry>& runs, const RunEntry& entry) {
  const RunRecord& run = *entry.run;
  const RunOrigin& origin = run.asked->origin;
  int id = 0;
  for (const RunEntry& other : runs) {
    if (!origin.of.empty() && key_of(*other.run) == origin.of) return other.id;
    const bool before = other.id < entry.id && origin.of.empty() && origin.kind == RunOrigin::Kind::replay;
    if (before && !run.ids.empty() && other.run->prompt_len == run.prompt_len && other.run->ids == run.ids &&
        other.run->model.name == run.model.name)
      id = other.id;
  }
  return id;
}

/// Where its tokens are from, if another run had them before.
RunTitle mark_of(const std::vector<RunEntry>& runs, const RunEntry& entry) {
  if (entry.run->asked == nullptr) return {};
  const RunOrigin& origin = entry.run->asked->origin;
  const int source = origin.kind == RunOrigin::Kind::drawn ? 0 : source_of(runs, entry);
  const std::string whose = source > 0             ? " of run " + std::to_string(source)
                            : origin.title.empty() ? ""
                                                   : " of \"" + origin.title + "\"";
  const std::string at = origin.q >= 0 ? " at query " + std::to_string(origin.q) : "";
  switch (origin.kind) {
    case RunOrigin::Kind::drawn:
      return {};
    case RunOrigin::Kind::replay:
      return {"replay" + whose,
              "Replayed: its tokens were given, so that two policies can be compared on the same text."};
    case RunOrigin::Kind::fork:
      if (whose.empty()) return {};  // token ids that somebody gave
      return {"fork" + whose + at, "Same tokens as that run up to this query."};
    case RunOrigin::Kind::resumed:
      return {
          "continuation" + whose + at,
          "The engine stopped during that run. Its tokens up to this query are in this run; the rest was decoded later."};
  }
  return {};
}

// What no policy says: how it was drawn, and by which model.
std::string rest_words(const RunRecord& run, const std::vector<const RunRecord*>& alike) {
  const auto differs = [&](auto of) {
    return std::ranges::any_of(alike, [&](const RunRecord* other) { return of(*other) != of(run); });
  };
  std::string text;
  if (differs([](const RunRecord& one) { return one.sampling.temperature; }))
    text += ", temperature " + number_text(run.sampling.temperature, 4);
  if (differs([](const RunRecord& one) { return one.sampling.seed; }))
    text += ", seed " + std::to_string(run.sampling.seed);
  if (differs([](const RunRecord& one) { return one.model.name; })) text += ", " + run.model.name;
  return text;
}

}  // namespace

std::string policy_title(const RunRecord& run) { return policy_words(run, {}); }

std::map<int, RunTitle> run_titles(const std::vector<RunEntry>& runs) {
  const Differing differing = differing_parameters(runs);
  std::map<int, RunTitle> titles;
  std::map<std::string, std::vector<const RunRecord*>> same_title;
  for (const RunEntry& entry : runs) {
    RunTitle title = mark_of(runs, entry);
    if (!title.text.empty()) title.text += ": ";
    title.text += policy_words(*entry.run, differing);
    if (!entry.name.empty()) title.text = entry.name + ": " + title.text;
    same_title[title.text].push_back(entry.run.get());
    titles[entry.id] = std::move(title);
  }
  // Another prompt stands in the row's second line.
  std::map<std::tuple<std::string, std::string_view>, std::vector<int>> still_equal;
  for (const RunEntry& entry : runs) {
    RunTitle& title = titles[entry.id];
    if (const auto& alike = same_title[title.text]; alike.size() > 1) title.text += rest_words(*entry.run, alike);
    still_equal[{title.text, entry.run->prompt_text}].push_back(entry.id);
  }
  for (const auto& [_, ids] : still_equal) {
    for (std::size_t i = 0; ids.size() > 1 && i < ids.size(); ++i)
      titles[ids[i]].text += ", " + std::to_string(i + 1) + " of " + std::to_string(ids.size());
  }
  return titles;
}

}  // namespace kvscope::app
