#include "views/figure/policy_words.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "engine/core/policy/policy.h"
#include "engine/core/support/text.h"

namespace kvscope::views {
namespace {

// What a key of a policy's text says to someone who reads a label.
constexpr std::pair<std::string_view, std::string_view> kTitles[] = {
    {"window", "Window"},       {"decay", "Decay by age"},       {"stride", "Decay stride"}, {"strict", "Strict"},
    {"density", "Density"},     {"density_over", "Density per"}, {"read", "Read per query"}, {"pool", "Pool limit"},
    {"drop", "Share evicted"},  {"observe", "Observed queries"}, {"full", "Global share"},   {"count", "Global count"},
    {"heads", "Head strategy"}, {"on", "Global heads"},          {"prefill", "Prompt mode"}, {"seed", "Policy seed"},
    {"dense", "Dense layers"}};

// What 0 is of a number that is off then, or left to another parameter.
constexpr std::pair<std::string_view, std::string_view> kZeros[] = {
    {"count", "by share"}, {"read", "all"}, {"pool", "none"}};

std::string per_cent(double share) { return brief_number(100 * share) + " %"; }

std::string budget_value(const BudgetSpec& budget) {
  switch (budget.kind) {
    case BudgetSpec::Kind::tokens:
      break;
    case BudgetSpec::Kind::keep:
      return per_cent(budget.value);
    case BudgetSpec::Kind::compression:
      return brief_number(budget.value) + "×";
  }
  return brief_number(budget.value) + " tokens";
}

std::string value_with_unit(const ParameterInfo& parameter, double value) {
  if (parameter.may_be_share && value > 0 && value < 1) return per_cent(value);
  if (parameter.name == "strict") return value != 0 ? "yes" : "no";
  for (const auto& [name, word] : kZeros) {
    if (name == parameter.name && value == 0) return std::string(word);
  }
  const std::string text = brief_value(parameter, value);
  if (text == "1" && parameter.unit.ends_with('s'))
    return "1 " + std::string(parameter.unit.substr(0, parameter.unit.size() - 1));
  const bool is_word = text != brief_number(value);
  return is_word || parameter.unit.empty() ? text : text + " " + std::string(parameter.unit);
}

}  // namespace

std::string parameter_title(std::string_view name) {
  for (const auto& [known, title] : kTitles) {
    if (known == name) return std::string(title);
  }
  std::string title(name);
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

std::vector<ParameterLine> parameter_lines(const PolicySpec& policy) {
  std::vector<ParameterLine> lines;
  const PolicyInfo& info = policy_of(policy).info;
  for (const ParameterInfo& parameter : info.parameters) {
    const std::string name(parameter.name), title = parameter_title(name);
    if (info.has_budget && name == "budget") {
      const BudgetSpec usual{BudgetSpec::Kind::tokens, parameter.default_value};
      lines.push_back({name, title, budget_value(policy.budget.value_or(usual))});
      continue;
    }
    if (policy.is_replaced(name)) continue;
    const double value = policy.value(name);
    if (parameter.quiet && value == parameter.default_value) continue;
    lines.push_back({name, title, value_with_unit(parameter, value)});
  }
  return lines;
}

}  // namespace kvscope::views
