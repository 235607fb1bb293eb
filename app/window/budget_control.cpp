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

// What stands in the slider.
std::string budget_text(const BudgetSpec& budget) {
  if (budget.kind == BudgetSpec::Kind::tokens) return fixed_text(budget.value, 0) + " tokens";
  if (budget.kind == BudgetSpec::Kind::keep) return fixed_text(100 * budget.value, share_decimals(budget.value)) + " %";
  return fixed_text(budget.value, factor_decimals(budget.value)) + "×";
}

/// A share is of the length that was asked for, which no run has that came to its end before.
std::string ended_early(const RunRecord& run) {
  if (run.status == RunStatus::running || run.n_tokens() >= run.n_positions) return "";
  return ", the length asked for; A ended at " + std::to_string(run.n_tokens());
}

struct BudgetWords {
  std::string text;
  bool to_be_seen = false;  // it is not what was asked for, or does nothing
};

// What it comes to in a run of that length. The field has a share as it was asked for: that of whole tokens beside it would
// be another.
BudgetWords words_of(const PolicySpec& policy, int n_positions, const std::string& ended) {
  const BudgetSpec& budget = *policy.budget;
  if (n_positions <= 0)
    return {budget.kind == BudgetSpec::Kind::tokens ? budget_text(budget) : "the prompt is not counted yet"};
  const auto raised = raised_budget(policy, n_positions);
  const int tokens = raised ? raised->least : policy.budget_tokens(n_positions);
  BudgetWords words;
  if (raised) {
    words = {describe_raised(*raised, n_positions), true};
  } else if (budget.kind == BudgetSpec::Kind::keep) {
    words.text = std::to_string(tokens) + " of " + std::to_string(n_positions) + " tokens kept, a factor of " +
                 number_text(static_cast<double>(n_positions) / std::max(1, tokens), 4);
  } else {
    words.text = describe_budget(tokens, n_positions);
  }
  words.text += ended;
  if (tokens < n_positions) return words;
  return {words.text + ". Nothing will be evicted: all " + std::to_string(n_positions) + " tokens fit in " +
              std::to_string(tokens),
          true};
}

void draw_words(Panel& panel, const std::string& whose, const BudgetWords& words, const char* item, const char* hint) {
  const std::string text = whose + ": " + words.text + ".";
  views::wrapped_text_in(words.to_be_seen ? panel.theme().palette.text : panel.theme().palette.muted, text);
  panel.services.items->add_text(item, views::last_item(), text);
  tooltip(panel, hint);
}

// The prompt that stands above is seldom A's, which the preview and "Decode again" are about: a share is other tokens of
// each, and neither number may be taken for the other's.
void draw_budget_words(Panel& panel, const PolicySpec& policy) {
  const views::FontScope small(panel.theme().fonts.small);
  const int next = panel.session.next_run().n_positions();
  const int of_a = panel.session.shown_a() ? panel.session.shown_a()->run->n_positions : 0;
  const bool together = of_a > 0 && next == of_a;
  const bool only_a = of_a > 0 && !panel.session.engine().model();
  const std::string ended = of_a > 0 ? ended_early(*panel.session.shown_a()->run) : "";
  if (!only_a)
    draw_words(panel, together ? "Next run, and A" : "Next run", words_of(policy, next, together ? ended : ""),
               "policy.budget_words",
               "Of the prompt that stands above and the answer up to its length, which Run would decode");
  if (only_a || (of_a > 0 && !together))
    draw_words(
        panel, "A", words_of(policy, of_a, ended), "policy.budget_words_a",
        "Of A's prompt and its answer up to the length that was asked for, which the preview and Decode again are "
        "about: a share is of these, wherever the answer ended");
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
  const PolicySpec policy = panel.session.policy_in_effect();
  if (!policy.budget) return;
  const int n_positions = panel.session.n_positions();
  const int tokens = n_positions > 0 ? policy.budget_tokens(n_positions) : 0;
  setting(panel, "Budget");
  static constexpr std::array<std::string_view, 3> kNames = {"tokens", "kept share", "factor"};
  int kind = static_cast<int>(policy.budget->kind);
  if (views::segmented(panel.services, "policy.budget_kind", kNames, {}, kind)) {
    const auto chosen = static_cast<BudgetSpec::Kind>(kind);
    panel.run("policy.set",
              {{"budget", converted(*policy.budget, chosen, tokens, n_positions)}, {"kind", name_of(chosen)}});
  }

  const std::optional<double> chosen = budget_slider(panel, policy);
  if (chosen) panel.run("policy.set", {{"budget", *chosen}});
  draw_budget_words(panel, policy);
}

}  // namespace kvscope::app
