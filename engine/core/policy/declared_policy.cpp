#include "engine/core/policy/declared_policy.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "engine/core/policy/declared_names.h"
#include "engine/core/policy/policy_shared.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope {
namespace {

using Rule = Declaration::Rule;

const Declaration& declaration_of(const PolicySpec& spec) { return spec.declared->declaration; }

/// With a rule of KVScope's a budget must hold sinks and window. What another one does with its budget is the engine's.
RetentionGeometry geometry(const PolicySpec& spec, int n_positions) {
  const Declaration& declaration = declaration_of(spec);
  if (declaration.rule == Rule::top_k) return budget_geometry(spec, n_positions);
  RetentionGeometry geometry = open_geometry(spec, n_positions);
  if (declaration.budget)
    geometry.top_k = std::clamp(spec.budget_tokens(n_positions) - geometry.n_sink - geometry.window, 0, geometry.top_k);
  return geometry;
}

RetentionPlan plan(const PolicySpec& spec, const RetentionGeometry&) {
  const Declaration& declaration = declaration_of(spec);
  RetentionPlan plan{.source = ScoreSource::engine, .dense_prefill = declaration.dense_prompt};
  switch (declaration.rule) {
    case Rule::top_k:
      plan.admission = Admission::top_k;
      break;
    case Rule::threshold:
      plan.admission = Admission::threshold;
      plan.threshold = static_cast<float>(spec.value("threshold"));
      break;
    case Rule::none:
      plan.eviction = "engine";  // no method of KVScope's: lifetimes do not follow from scores
      break;
  }
  return plan;
}

std::string sentence_end(const std::string& words) {
  return ": " + words + (words.ends_with('.') || words.ends_with('!') || words.ends_with('?') ? "" : ".");
}

/// The method's words, then the numbers of a rule of KVScope's as a sentence after them.
std::string explain(const TokenQuestion& question) {
  const Declaration& declaration = declaration_of(question.spec);
  const std::string& words = question.evicted ? declaration.evicted : declaration.kept;
  const bool has_score = declaration.rule == Rule::threshold && !std::isnan(question.score);
  const bool has_contest = declaration.rule == Rule::top_k && question.contest != nullptr;
  if (question.local || has_score || has_contest) {
    std::string by_rule = explain_by_rule(question);
    if (question.local || words.empty()) return by_rule;
    by_rule = by_rule.substr(by_rule.find(' ') + 1);  // less its colon
    if (by_rule[0] >= 'a' && by_rule[0] <= 'z') by_rule[0] = static_cast<char>(by_rule[0] - 'a' + 'A');
    return sentence_end(words) + " " + by_rule;
  }
  if (!words.empty()) return sentence_end(words);
  return question.evicted ? ": the rule of the engine evicted it. The engine gave no reason."
                          : ": the rule of the engine keeps it. The engine gave no reason.";
}

DecisionLog log(const LogQuestion& question) {
  const Declaration& declaration = declaration_of(question.spec);
  if (question.local || declaration.rule != Rule::none) return log_by_rule(question);
  return {.note = sentence_end(declaration.definition).substr(2) +
                  " The rule is the engine's, so there are no single decisions to list."};
}

/// A slider that reaches the default and what lies near it; what is beyond can be typed.
std::optional<ParameterSlider> slider_of(const DeclaredParameter& parameter) {
  constexpr double kReal = 20, kCount = 1024;
  const double size = std::abs(parameter.default_value);
  if (parameter.kind == ParameterKind::real) {
    const double reach = std::max(kReal, 4 * size);
    const double min = std::max(parameter.min, -reach), max = std::min(parameter.max, reach);
    const int decimals = std::clamp(2 - static_cast<int>(std::floor(std::log10(std::max(max - min, 1e-6)))), 0, 6);
    return ParameterSlider{min, max, std::max(2, decimals)};
  }
  if (parameter.kind != ParameterKind::count) return std::nullopt;  // of tokens, the run's length says
  const double reach = std::max(kCount, 2 * size);
  return ParameterSlider{std::max(parameter.min, -reach), std::min(parameter.max, reach), 0};
}

class Registry {
 public:
  const DeclaredPolicy* declare(Declaration declaration) {
    const std::string text = declaration_json(declaration).dump();
    const std::scoped_lock lock(mutex_);
    const DeclaredPolicy*& entry = by_text_[text];
    if (entry == nullptr) {
      if (entries_.size() == kMostEntries)
        throw Error({.code = ExitCode::resource,
                     .file = "policy declarations",
                     .found = "more than " + std::to_string(kMostEntries),
                     .expected = "fewer",
                     .hint = "restart KVScope"});
      entry = &entries_.emplace_back(std::move(declaration));
    }
    meaning_.try_emplace(entry->declaration.name, entry);
    return entry;
  }
  void offer(std::span<const DeclaredPolicy* const> policies) {
    const std::scoped_lock lock(mutex_);
    for (const DeclaredPolicy* policy : policies) meaning_[policy->declaration.name] = policy;
  }
  const DeclaredPolicy* find(std::string_view name) {
    const std::scoped_lock lock(mutex_);
    const auto found = meaning_.find(name);
    return found == meaning_.end() ? nullptr : found->second;
  }
  std::vector<std::string> names() {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, policy] : meaning_) names.push_back(name);
    return names;
  }

 private:
  static constexpr std::size_t kMostEntries = 8192;  // a trace from anywhere must not fill the memory
  std::mutex mutex_;
  std::deque<DeclaredPolicy> entries_;  // whose places never change
  std::map<std::string, const DeclaredPolicy*, std::less<>> by_text_, meaning_;
};

Registry& registry() {
  static Registry* const one = new Registry;  // for ever: threads may end after main()
  return *one;
}

}  // namespace

DeclaredPolicy::DeclaredPolicy(Declaration declared) : declaration(std::move(declared)) {
  choices_.reserve(declaration.parameters.size());
  for (const DeclaredParameter& parameter : declaration.parameters) {
    const auto& choices = choices_.emplace_back(parameter.choices.begin(), parameter.choices.end());
    parameters_.push_back({.name = parameter.name,
                           .kind = parameter.kind,
                           .unit = parameter.unit,
                           .default_value = parameter.default_value,
                           .min = parameter.min,
                           .max = parameter.max,
                           .definition = parameter.definition,
                           .choices = choices,
                           .slider = slider_of(parameter),
                           .may_be_share = parameter.share});
  }
  policy = {.info = {.name = declaration.name,
                     .title = declaration.title,
                     .definition = declaration.definition,
                     .parameters = parameters_,
                     .has_budget = declaration.budget},
            .geometry = geometry,
            .plan = plan,
            .explain = explain,
            .of_scorer = [](const GateNumbers&) { return GateDefaults(); },
            .log = log};
}

const DeclaredPolicy* declare_policy(Declaration declaration) { return registry().declare(std::move(declaration)); }
void offer_policies(std::span<const DeclaredPolicy* const> policies) { registry().offer(policies); }
const DeclaredPolicy* find_declared(std::string_view name) { return registry().find(name); }
std::vector<std::string> declared_names() { return registry().names(); }

void put_policy(nlohmann::json& object, const PolicySpec& policy) {
  object["policy"] = policy.written();
  if (policy.declared != nullptr) object["declaration"] = declaration_json(policy.declared->declaration);
}

PolicySpec take_policy(const nlohmann::json& object) {
  const auto declaration = object.find("declaration");
  const DeclaredPolicy* own =
      declaration == object.end() ? nullptr : declare_policy(declaration_of_json(*declaration, "declaration"));
  return PolicySpec::parse(JsonObject(object, "policy").text("policy"), own);
}

}  // namespace kvscope
