#include "app/session/run_titles.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>
#include <tuple>

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
    const PolicyInfo* info = find_policy(policy.name);
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
  if (!run.changes.empty()) return method_name(policy.name) + " " + views::policy_history(run);
  std::string text = method_name(policy.name);
  if (policy.budget) text += budget_words(*policy.budget);
  if (const std::string gate = gate_of(run); !gate.empty()) text += " (" + gate + ")";
  const PolicyInfo* info = find_policy(policy.name);
  // Which heads are global no parameter says where a directory does: two choices differ in their number at least.
  if (info != nullptr && !run.local_heads.empty() && policy_of(policy).reads_heads(policy))
    text += ", " + std::to_string(std::ranges::count(run.local_heads, 0)) + " of " +
            std::to_string(run.local_heads.size()) + " heads global";
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

bool begins_with(const RunRecord& run, std::span<const std::int32_t> ids) {
  return run.ids.size() >= ids.size() && std::equal(ids.begin(), ids.end(), run.ids.begin());
}

/// The last run before it that `is` one, as one repeats what one has just seen; its id, or 0.
template <typename Is>
int last_before(const std::vector<RunEntry>& runs, const RunEntry& entry, Is is) {
  int id = 0;
  for (const RunEntry& other : runs) {
    if (other.id >= entry.id) break;
    if (other.run->model.name == entry.run->model.name && is(*other.run)) id = other.id;
  }
  return id;
}

/// Where its tokens are from, if a run of the list had them before.
RunTitle mark_of(const std::vector<RunEntry>& runs, const RunEntry& entry) {
  const RunRecord& run = *entry.run;
  const auto has = [&run](const char* option) { return run.command_line.find(option) != std::string::npos; };
  const bool given = has(" --answer-ids ");
  // A line that would be too long is none: equal tokens are said all the same, but not how they came to be.
  if (given || (run.command_line.empty() && run.n_tokens() > run.prompt_len)) {
    const int of = entry.of_run > 0 ? entry.of_run
                   : run.ids.empty()
                       ? 0
                       : last_before(runs, entry, [&run](const RunRecord& other) {
                           // All of it, not as much of a longer one: while it comes it is known how long it will be.
                           return other.prompt_len == run.prompt_len && other.n_tokens() > other.prompt_len &&
                                  other.n_tokens() == std::max(run.n_tokens(), run.n_positions) &&
                                  begins_with(other, run.ids);
                         });
    const std::string whose = of > 0 ? " of run " + std::to_string(of) : "";
    if (given)
      return {"replay" + whose,
              "Replayed: its tokens were given, so that two policies can be compared on the same text."};
    if (of > 0) return {"tokens" + whose, "Same tokens as that run."};
  }
  if (given || !has(" --prompt-ids ") || entry.name.starts_with("fork of run ")) return {};
  const int of = last_before(runs, entry, [&run](const RunRecord& other) {
    const auto prompt = std::span(run.ids).first(std::min<std::size_t>(run.ids.size(), run.prompt_len));
    return !prompt.empty() && other.prompt_len != run.prompt_len && begins_with(other, prompt);
  });
  if (of == 0) return {};
  return {"fork of run " + std::to_string(of) + " at query " + std::to_string(run.prompt_len - 1),
          "Same tokens as that run up to this query."};
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
