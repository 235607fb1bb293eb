// The budget of the policy: its control, and what it comes to for the next run and for A.

#include "app/window/budget_control.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "app/window/panel.h"
#include "app/window/parameter_controls.h"
#include "app/window/value_slider.h"
#include "engine/core/policy/least_budget.h"
#include "engine/core/support/text.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

std::string_view name_of(BudgetSpec::Kind kind) {
  return kind == BudgetSpec::Kind::tokens ? "tokens" : kind == BudgetSpec::Kind::keep ? "keep" : "compression";
}

// The same budget, said in another way.
double converted(const BudgetSpec& budget, BudgetSpec::Kind kind, int tokens, int n_positions) {
  if (n_positions <= 0 || tokens <= 0)
    return kind == BudgetSpec::Kind::tokens ? 512 : kind == BudgetSpec::Kind::keep ? 0.25 : 4;
  if (kind == budget.kind) return budget.value;
  const double keep = static_cast<double>(tokens) / n_positions;
  return kind == BudgetSpec::Kind::tokens ? tokens : kind == BudgetSpec::Kind::keep ? keep : 1 / keep;
}

// A factor that comes of whole tokens has no end of decimals.
int factor_decimals(double factor) { return std::min(2, shown_decimals(factor, 1)); }

// The text in the slider.
std::string budget_text(const BudgetSpec& budget) {
  if (budget.kind == BudgetSpec::Kind::tokens) return fixed_text(budget.value, 0) + " tokens";
  if (budget.kind == BudgetSpec::Kind::keep) return fixed_text(100 * budget.value, share_decimals(budget.value)) + " %";
  return fixed_text(budget.value, factor_decimals(budget.value)) + "×";
}

struct BudgetWords {
  std::string text;
  bool to_be_seen = false;  // it is not what was asked for, or does nothing
};

// "50 % of 566 tokens", "80 tokens of 566", "2x on 566 tokens": what is asked for in a run of that length.
std::string asked_of(const BudgetSpec& budget, const std::string& tokens) {
  const std::string text = budget_text(budget);
  if (budget.kind == BudgetSpec::Kind::tokens) return text + " of " + tokens;
  return text + (budget.kind == BudgetSpec::Kind::keep ? " of " : " compression of ") + tokens + " tokens";
}

// What a run of that length would keep. Never what one kept: the budget is the panel's, and no run may have had it.
BudgetWords words_of(const PolicySpec& policy, int n_positions) {
  const BudgetSpec& budget = *policy.budget;
  if (n_positions <= 0)
    return {budget.kind == BudgetSpec::Kind::tokens ? "would keep " + budget_text(budget)
                                                    : "the prompt's tokens are not counted yet"};
  const auto raised = raised_budget(policy, n_positions);
  const int tokens = raised ? raised->least : policy.budget_tokens(n_positions);
  BudgetWords words;
  if (raised) {
    words = {describe_raised(*raised, n_positions), true};
  } else {
    words.text = "would keep " + std::to_string(tokens) + " of " + std::to_string(n_positions) + " tokens (" +
                 number_text(static_cast<double>(n_positions) / std::max(1, tokens), 4) + "×)";
  }
  if (tokens < n_positions) return words;
  return {words.text + ". Nothing will be evicted: all " + std::to_string(n_positions) + " tokens fit in " +
              std::to_string(tokens),
          true};
}

// "50 % of A's 566 tokens would be 283 (A kept 226)". A share is of the length that was asked for, which a run that came to its
// end before does not have.
BudgetWords words_of_a(const PolicySpec& policy, const RunRecord& a, const RunSummary* known) {
  const auto raised = raised_budget(policy, a.n_positions);
  const int tokens = raised ? raised->least : policy.budget_tokens(a.n_positions);
  BudgetWords words{asked_of(*policy.budget, "A's " + std::to_string(a.n_positions)) + " would be " +
                        std::to_string(raised ? raised->wanted : tokens),
                    raised.has_value()};
  if (raised) words.text += ", raised to " + std::to_string(raised->least);
  std::string facts;
  if (a.status != RunStatus::running && a.n_tokens() < a.n_positions)
    facts = "A ended at " + std::to_string(a.n_tokens()) + " tokens";
  if (known != nullptr && known->measures.cached > 0)
    facts += (facts.empty() ? "A kept " : " and kept ") + fixed_text(known->measures.cached, 0);
  if (!facts.empty()) words.text += " (" + facts + ")";
  return words;
}

void draw_words(Panel& panel, const std::string& text, bool to_be_seen, const char* item, const char* hint) {
  views::wrapped_text_in(to_be_seen ? panel.theme().palette.text : panel.theme().palette.muted, text);
  panel.services.items->add_text(item, views::last_item(), text);
  tooltip(panel, hint);
}

// The prompt above is seldom A's, which the preview and "Decode again" are about: a share is other tokens of each, and neither
// number may be taken for the other's.
void draw_budget_words(Panel& panel, const PolicySpec& policy) {
  const views::FontScope small(panel.theme().fonts.small);
  const RunEntry* a = panel.session.runs().a();
  const int of_a = panel.session.runs().shown_a() && a ? a->run->n_positions : 0;
  if (of_a == 0 || panel.session.engine().model()) {
    const BudgetWords words = words_of(policy, panel.session.next_run().n_positions());
    draw_words(panel, "Next run: " + words.text + ".", words.to_be_seen, "policy.budget_words",
               "For the next run: the prompt above plus the longest answer that it allows");
  }
  if (of_a == 0) return;
  const BudgetWords words = words_of_a(policy, *a->run, panel.session.summaries().of(*a));
  draw_words(
      panel, words.text + ".", words.to_be_seen, "policy.budget_words_a",
      "For the preview and Decode again: A's prompt plus the longest answer that A allowed. Kept by A: tokens in its "
      "cache after the last query, mean over heads, including sinks and window");
}

// Where the panel has another budget than A: what A has, and the way to it.
void draw_budget_of_a(Panel& panel, const PolicySpec& policy) {
  const RunEntry* a = panel.session.runs().a();
  if (!a || !a->run->policy.budget) return;
  const RunRecord& run = *a->run;
  const BudgetSpec& of_a = *run.policy.budget;
  if (of_a.kind == policy.budget->kind && of_a.value == policy.budget->value) return;
  // A share that is less than sinks and window take is raised when the run begins.
  if (with_least_budget(policy, run.n_positions).budget_tokens(run.n_positions) ==
      run.policy.budget_tokens(run.n_positions))
    return;
  const std::string label = "A has " + budget_text(of_a);
  if (ImGui::SmallButton((label + "##budget_of_a").c_str()))
    panel.run("policy.set", {{"budget", of_a.value}, {"kind", name_of(of_a.kind)}});
  panel.services.items->add_text("policy.budget_of_a", views::last_item(), label);
  tooltip(panel, "Use A's budget, to compare the policies at the same size");
}

// Budgets of heads that the user gave, and the way back to one.
void draw_given_budgets(Panel& panel) {
  if (panel.session.parameters().budgets.empty()) return;
  const std::vector<std::int32_t> given = panel.session.next_run().budgets();
  std::string text = "Budgets of heads are given, but this policy has none.";
  if (!given.empty()) {
    const auto [least, most] = std::ranges::minmax(given);
    text =
        "Budgets of heads: " + std::to_string(least) + " to " + std::to_string(most) + " tokens, instead of this one.";
  }
  const views::FontScope small(panel.theme().fonts.small);
  wrapped_text_in(given.empty() ? panel.theme().palette.warn : panel.theme().palette.muted, text);
  panel.services.items->add_text("policy.budgets", views::last_item(), text);
  if (ImGui::SmallButton("Use one budget")) panel.run("policy.one_budget");
  panel.item("policy.one_budget");
}

// What the slider was moved to, rounded to whole per cent or a tenth. What is too little for the run is raised, and said to
// be: an end that followed the run's length would move the knob while the prompt is typed.
std::optional<double> budget_slider(Panel& panel, const PolicySpec& policy) {
  const int reach = slider_reach(panel);
  const double value = policy.budget->value, n = reach, least = least_budget(policy, reach).value_or(1);
  ValueSlider slider{.item = "policy.budget", .value = value, .told = budget_text(*policy.budget)};
  switch (policy.budget->kind) {
    case BudgetSpec::Kind::tokens:
      slider.min = least, slider.max = std::max(least + 1, n), slider.unit = " tok";
      break;
    case BudgetSpec::Kind::keep:
      slider.value = 100 * value, slider.unit = " %", slider.decimals = share_decimals(value);
      slider.min = std::clamp(std::ceil(100 * least / n), 1.0, 99.0), slider.max = 100;
      break;
    case BudgetSpec::Kind::compression:
      slider.min = 1, slider.max = std::max(1.5, n / least), slider.by_ratio = true;
      slider.unit = "×", slider.decimals = factor_decimals(value), slider.drag_decimals = 1;
      break;
  }
  const auto moved = value_slider(panel, slider);
  if (!moved) return std::nullopt;
  if (policy.budget->kind == BudgetSpec::Kind::tokens) return std::max(1.0, std::round(*moved));
  if (policy.budget->kind == BudgetSpec::Kind::keep) return std::clamp(*moved / 100, 0.001, 1.0);
  return std::max(1.0, *moved);
}

}  // namespace

void draw_budget(Panel& panel) {
  const PolicySpec policy = panel.session.policy().in_effect();
  if (!policy.budget) return;
  const int n_positions = panel.session.policy().n_positions();
  const int tokens = n_positions > 0 ? policy.budget_tokens(n_positions) : 0;
  setting(panel, "Budget");
  static constexpr std::array<std::string_view, 3> kNames = {"tokens", "keep %", "compression"};
  int kind = static_cast<int>(policy.budget->kind);
  if (views::segmented(panel.services, "policy.budget_kind", kNames, {}, kind)) {
    const auto chosen = static_cast<BudgetSpec::Kind>(kind);
    panel.run("policy.set",
              {{"budget", converted(*policy.budget, chosen, tokens, n_positions)}, {"kind", name_of(chosen)}});
  }

  const std::optional<double> chosen = budget_slider(panel, policy);
  if (chosen) panel.run("policy.set", {{"budget", *chosen}});
  draw_given_budgets(panel);
  draw_budget_of_a(panel, policy);
  if (panel.session.next_run().budgets().empty()) draw_budget_words(panel, policy);
}

}  // namespace kvscope::app
