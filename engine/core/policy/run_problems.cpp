#include "engine/core/policy/run_problems.h"

#include <algorithm>
#include <stdexcept>

#include "engine/core/policy/least_budget.h"
#include "engine/core/policy/policy.h"
#include "engine/core/policy/policy_shared.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

using Problems = std::vector<RunProblem>;

PolicySpec with_value(PolicySpec spec, const char* parameter, double value) {
  spec.values[parameter] = value;
  spec.unwritten.erase(parameter);
  return spec;
}

/// The parts of an error that a person who wrote no text of a policy can use: "Budget: a budget of 31 tokens; at least 68".
std::string words_of(const Error& error) {
  const Error::Parts& parts = error.parts();
  std::string text = parts.where.empty() ? parts.found : parts.where + ": " + parts.found;
  if (!parts.expected.empty()) text += "; " + parts.expected;
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

bool reads_scores(const PolicySpec& asked) { return policy_of(asked).plan(asked, {}).source == ScoreSource::gate; }

void check_gate(const RunQuestion& question, Problems& problems) {
  const PolicyInfo& info = policy_of(question.policy).info;
  if (question.gates == nullptr || !reads_scores(question.policy)) return;
  if (question.gates->scorer(info.gates) != nullptr) return;
  problems.push_back(
      {.kind = RunProblem::Kind::gate,
       .text = std::string(info.title) + " needs " + gate_kinds_in_words(info.gates) + ". None is loaded."});
}

// A count of heads that the model does not have: told before the policy is taken apart, which would refuse it.
bool has_too_many_heads(const RunQuestion& question, Problems& problems) {
  const int n_heads = question.shape.n_heads();
  if (n_heads == 0 || question.policy.declared != nullptr || !question.policy.has("count") ||
      question.policy.count("count") <= n_heads)
    return false;
  const std::string most = std::to_string(n_heads);
  problems.push_back(
      {.kind = RunProblem::Kind::policy,
       .text = "The model has " + most + " KV heads, not " + std::to_string(question.policy.count("count")) + ".",
       .remedy = "Use " + most,
       .policy = with_value(question.policy, "count", n_heads)});
  return true;
}

// Whether its heads can be told apart on this model. Which values a directory has does not matter for that.
void check_heads(const RunQuestion& question, const PolicySpec& spec, Problems& problems) {
  const Policy& policy = policy_of(spec);
  if (policy.local_heads == nullptr || question.shape.n_heads() == 0 || question.gates == nullptr) return;
  HeadsOfModel shape = question.shape;
  if (question.gates->heads) shape.alpha.assign(static_cast<std::size_t>(shape.n_heads()), 1.f);
  try {
    policy.local_heads(spec, shape);
  } catch (const std::invalid_argument&) {
    problems.push_back({.kind = RunProblem::Kind::heads,
                        .text = std::string(policy.info.title) + " needs a head directory. None is loaded."});
  }
}

void check_window(const RunQuestion& question, const PolicySpec& spec, Problems& problems) {
  if (question.gates == nullptr || !reads_scores(question.policy)) return;
  const GateOfModel* gate = question.gates->scorer(policy_of(spec).info.gates);
  if (gate == nullptr || gate->delay < 0 || !spec.has("window")) return;
  const int window = spec.count("window");
  if (goes_with_delay(window, gate->kind, gate->delay)) return;
  const std::string right = std::to_string(gate->delay), found = std::to_string(window);
  problems.push_back(
      {.kind = RunProblem::Kind::window,
       .text = fixes_window(gate->kind, gate->delay)
                   ? "The scorer was trained with a window of " + right + " tokens, not " + found + "."
                   : "The gate looks " + right + " tokens ahead. A window of " + found + " is too short.",
       .remedy = "Use " + right,
       .policy = with_value(question.policy, "window", gate->delay)});
}

void check_decay(const RunQuestion& question, const PolicySpec& spec, Problems& problems) {
  if (question.gates == nullptr || !reads_scores(question.policy) || !has_learned_decay(spec)) return;
  const GateOfModel* gate = question.gates->scorer(policy_of(spec).info.gates);
  if (gate == nullptr || !gate->numbers || gate->numbers->has_decay) return;
  const double usual = PolicySpec::parse(spec.name).value("decay");
  problems.push_back({.kind = RunProblem::Kind::decay,
                      .text = "The gate has no learned decay.",
                      .remedy = "Use " + number_text(usual),
                      .policy = with_value(question.policy, "decay", usual)});
}

void check_geometry(const RunQuestion& question, const PolicySpec& spec, Problems& problems) {
  if (question.prompt_tokens < 0) return;
  int n = question.prompt_tokens + question.new_tokens;
  if (question.max_positions > 0) n = std::min(n, question.max_positions);
  try {
    if (n > 0) with_least_budget(spec, n).geometry(n);
  } catch (const Error& error) {
    RunProblem problem{.kind = RunProblem::Kind::policy, .text = words_of(error)};
    // A window that the scorer fixes is put right first: the budget that it leaves is another.
    if (const auto least = least_budget(spec, n); least && spec.budget) {
      PolicySpec enough = question.policy;
      enough.budget = {BudgetSpec::Kind::tokens, static_cast<double>(*least)};
      problem = {.kind = RunProblem::Kind::budget,
                 .text = "A budget of " + std::to_string(spec.budget_tokens(n)) + " tokens is too small: " +
                         what_takes_least(pool_interval(spec) > 0) + " need " + std::to_string(*least) + ".",
                 .remedy = "Raise to " + std::to_string(*least),
                 .policy = std::move(enough)};
    }
    problems.push_back(std::move(problem));
  }
}

void check_length(const RunQuestion& question, Problems& problems) {
  const int prompt = question.prompt_tokens, most = question.max_positions;
  if (prompt == 0) problems.push_back({.kind = RunProblem::Kind::prompt, .text = "There is no prompt."});
  if (prompt <= 0 || most <= 0 || prompt + static_cast<long>(question.new_tokens) <= most) return;
  const std::string context = " of the " + std::to_string(most) + " tokens that the model's context holds.";
  if (prompt > most) {
    problems.push_back({.kind = RunProblem::Kind::prompt,
                        .text = "The prompt has " + std::to_string(prompt) + " tokens; the model's context holds " +
                                std::to_string(most) + "."});
    return;
  }
  problems.push_back({.kind = RunProblem::Kind::answer,
                      .text = "The prompt leaves " + std::to_string(most - prompt) + context,
                      .remedy = "Shorten the answer to " + std::to_string(most - prompt),
                      .new_tokens = most - prompt});
}

}  // namespace

bool fixes_window(std::string_view kind, int delay) { return delay > 1 && (kind.empty() || kind == "kvpop_mlstm"); }

bool goes_with_delay(int window, std::string_view kind, int delay) {
  return fixes_window(kind, delay) ? window == delay : window >= delay;
}

std::optional<int> fixed_window(const PolicySpec& asked, const GatesOfModel& gates) {
  if (!asked.has("window") || !reads_scores(asked)) return std::nullopt;
  const GateOfModel* gate = gates.scorer(policy_of(asked).info.gates);
  return gate != nullptr && fixes_window(gate->kind, gate->delay) ? std::optional(gate->delay) : std::nullopt;
}

PolicyNeed need_of(const PolicySpec& spec) {
  const Policy& policy = policy_of(spec);
  const RetentionPlan plan = policy.plan(spec, {});
  if (plan.source == ScoreSource::gate || policy.reads_heads(spec)) return PolicyNeed::gate;
  const bool watches = !plan.eviction.empty() || plan.admission == Admission::least || plan.selection.tokens > 0;
  return watches || plan.source == ScoreSource::future ? PolicyNeed::attention : PolicyNeed::nothing;
}

bool has_gate_for(const PolicySpec& spec, const GatesOfModel& gates) {
  const Policy& policy = policy_of(spec);
  if (policy.reads_heads(spec) && !gates.heads) return false;
  return !reads_scores(spec) || gates.scorer(policy.info.gates) != nullptr;
}

std::string gate_kinds_in_words(std::span<const std::string_view> kinds) {
  if (kinds.empty()) return "a gate of any kind that scores tokens";
  const std::string titles = scorer_titles(kinds);
  return (titles.starts_with("SP") ? "an " : "a ") + titles + " gate";
}

std::vector<RunProblem> run_problems(const RunQuestion& question) {
  Problems problems;
  check_length(question, problems);
  try {
    question.policy.check();
    if (has_too_many_heads(question, problems)) return problems;
    check_gate(question, problems);
    PolicySpec spec = question.policy;
    if (question.gates != nullptr && question.shape.n_heads() > 0)
      spec = policy_on(question.policy, question.shape, *question.gates);
    check_heads(question, spec, problems);
    check_window(question, spec, problems);
    check_decay(question, spec, problems);
    check_geometry(question, spec, problems);
  } catch (const Error& error) {
    problems.push_back({.kind = RunProblem::Kind::policy, .text = words_of(error)});
  }
  return problems;
}

}  // namespace kvscope
