#include "app/window/parameter_controls.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "app/window/panel.h"
#include "app/window/value_slider.h"
#include "engine/core/policy/gates_of_model.h"
#include "engine/core/policy/run_problems.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "views/figure/policy_words.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

using views::text_in;
using views::wrapped_text_in;

bool is_share(const ParameterInfo& info, double value) { return info.may_be_share && value > 0 && value < 1; }

bool draw_choice(const ParameterInfo& info, const std::string& label, double& value) {
  const auto now = static_cast<std::size_t>(value);
  bool changed = false;
  if (!views::begin_combo(label.c_str(), std::string(info.choices[now]))) return false;
  for (std::size_t i = 0; i < info.choices.size(); ++i) {
    const bool chosen = ImGui::Selectable(std::string(info.choices[i]).c_str(), i == now);
    if (i == now) ImGui::SetItemDefaultFocus();  // arrows go on from it
    if (!chosen) continue;
    value = static_cast<double>(i);
    changed = i != now;
  }
  ImGui::EndCombo();
  return changed;
}

// The text in the control.
std::string value_text(const ParameterInfo& info, double value, int reach) {
  if (info.kind == ParameterKind::choice) return std::string(info.choices[static_cast<std::size_t>(value)]);
  if (!info.word.empty() && value == kWordValue) return std::string(info.word);
  if (is_share(info, value)) return fixed_text(100 * value, share_decimals(value)) + " %";
  return fixed_text(value, shown_decimals(value, std::min(3, info.slider_of(reach).decimals)));
}

// A share, moved in whole per cent.
bool draw_share(Panel& panel, ValueSlider slider, double& value) {
  slider.value = 100 * value, slider.min = 1, slider.max = 99;
  slider.decimals = share_decimals(value), slider.unit = " %";
  const auto moved = value_slider(panel, slider);
  if (!moved) return false;
  value = std::clamp(std::round(*moved), 1.0, 99.0) / 100.0;
  return true;
}

bool is_switch(const ParameterInfo& info) {
  return info.kind == ParameterKind::count && info.min == 0 && info.max == 1 && info.word.empty();
}

bool draw_switch(Panel& panel, const ParameterInfo& info, const ValueSlider& slider, double& value) {
  bool on = value != 0;
  const bool changed = ImGui::Checkbox(("##" + std::string(info.name)).c_str(), &on);
  panel.services.items->add_text(slider.item, views::last_item(), slider.told);
  tooltip(panel, slider.hint);
  value = on ? 1 : 0;
  return changed;
}

// Moved to a value with the slider's decimals; what lies beyond the slider can be typed.
bool draw_value(Panel& panel, const ParameterInfo& info, ValueSlider slider, double& value) {
  if (is_switch(info)) return draw_switch(panel, info, slider, value);
  if (is_share(info, value)) return draw_share(panel, slider, value);
  ParameterSlider way = info.slider_of(slider_reach(panel));
  if (const auto& model = panel.session.engine().model(); model && info.name == "count")  // of the hybrid's heads
    way.max = std::min(way.max, static_cast<double>(model->n_layers * model->n_kv_heads));
  slider.value = value, slider.min = way.min, slider.max = way.max, slider.by_ratio = way.by_ratio;
  slider.decimals = shown_decimals(value, std::min(3, way.decimals)), slider.drag_decimals = way.decimals;
  if (!info.word.empty() && value == kWordValue) slider.word = info.word;
  const auto given = value_slider(panel, slider);
  if (!given) return false;
  // Moved below the least number, it means the word.
  value = !info.word.empty() && *given < info.min ? kWordValue : std::clamp(*given, info.min, info.max);
  if (info.kind != ParameterKind::real) value = std::round(value);
  return true;
}

// Tokens or a share of the run: the same amount in the other unit.
bool draw_unit(Panel& panel, const ParameterInfo& info, double& value) {
  const bool share = is_share(info, value);
  const bool clicked =
      ImGui::Button((std::string(share ? "%" : "tok") + "##" + std::string(info.name)).c_str(), {-1, 0});
  panel.services.items->add_text("policy." + std::string(info.name) + "_unit", views::last_item(), share ? "%" : "tok");
  tooltip(panel, share ? "Share of the run's positions. Click for tokens"
                       : "Tokens. Click for a share of the run's positions");
  if (!clicked) return false;
  const int n = panel.session.policy().n_positions();
  if (share) {
    value = std::clamp(n > 0 ? std::round(value * n) : info.default_value, std::max(1.0, info.min), info.max);
  } else {
    const double of_run = n > 0 && value > 0 ? value / n : 0.25;
    value = std::clamp(std::round(100 * of_run) / 100, 0.01, 0.99);
  }
  return true;
}

// What a hybrid makes of the loaded model.
void draw_heads_note(Panel& panel, const PolicySpec& policy) {
  const auto& model = panel.session.engine().model();
  if (!model || policy_of(policy).heads_note == nullptr) return;
  std::string note;
  try {
    HeadsOfModel heads{model->n_layers, model->n_kv_heads, {}};
    if (panel.session.engine().gates().heads)  // which they are the engine alone knows
      heads.alpha.assign(static_cast<std::size_t>(heads.n_layers) * heads.n_kv_heads, 0);
    note = policy_of(policy).heads_note(policy, heads);
  } catch (const Error&) {
    return;  // more heads than there are, which is said beside Run
  }
  const views::FontScope font(panel.theme().fonts.small);
  wrapped_text_in(panel.theme().palette.muted, note);
  panel.services.items->add_text("policy.heads_note", views::last_item(), note);
}

/// Where a scorer fixes the window it is not moved, and says why.
bool draw_locked(Panel& panel, const ParameterInfo& info, double value) {
  if (info.name != "window" || !panel.session.engine().model()) return false;
  const auto fixed = fixed_window(panel.session.parameters().policy, panel.session.engine().gates());
  if (!fixed || value != *fixed) return false;
  const std::string words = std::to_string(*fixed) + ": the delay this scorer was trained with";
  const views::FontScope font(panel.theme().fonts.small);
  wrapped_text_in(panel.theme().palette.muted, words);
  panel.services.items->add_text("policy.window.locked", views::last_item(), words);
  return true;
}

// Shows the number that the gate was trained with, where the user overrides it.
void draw_gates_own(Panel& panel, const ParameterInfo& info) {
  if (!panel.session.engine().model()) return;
  const PolicySpec& asked = panel.session.parameters().policy;
  const std::optional<double> own = own_number(asked, info.name, panel.session.engine().gates());
  if (!own || *own == asked.value(info.name)) return;
  const views::FontScope font(panel.theme().fonts.small);
  const std::string note = "gate default: " + brief_value(info, *own);
  wrapped_text_in(panel.theme().palette.warn, note);
  panel.services.items->add_text("policy." + std::string(info.name) + ".own", views::last_item(), note);
}

void draw_parameter(Panel& panel, const PolicySpec& policy, const ParameterInfo& info) {
  ImGui::AlignTextToFramePadding();
  text_in(panel.theme().palette.muted, views::parameter_title(info.name));
  tooltip(panel, info.definition);
  ImGui::SameLine(panel.px(kLabelWidth));
  double value = policy.value(info.name);
  if (draw_locked(panel, info, value)) return;
  const bool used = policy_of(policy).uses(policy, info.name);
  ImGui::BeginDisabled(!used);
  const std::string item = "policy." + std::string(info.name);
  const std::string text = (used ? "" : "disabled ") + value_text(info, value, slider_reach(panel));
  const std::string hint = (used ? "" : "Has no effect with the current settings.\n") + std::string(info.definition);
  bool changed = false;
  if (info.kind == ParameterKind::choice) {
    ImGui::SetNextItemWidth(-1);
    changed = draw_choice(info, "##" + item, value);
    panel.services.items->add_text(item, views::last_item(), text);
    tooltip(panel, hint);
  } else {
    changed = draw_value(
        panel, info, {.item = item, .told = text, .right = info.may_be_share ? panel.px(44) : 0, .hint = hint}, value);
  }
  if (info.may_be_share) {
    ImGui::SameLine();
    changed |= draw_unit(panel, info, value);
  }
  ImGui::EndDisabled();
  draw_gates_own(panel, info);
  if (changed) panel.run("policy.set", {{"parameter", info.name}, {"value", value}});
}

// The policy with what few change at its defaults.
PolicySpec without_rare(const PolicySpec& policy) {
  PolicySpec plain = policy;
  for (const ParameterInfo& info : policy_of(policy).info.parameters) {
    if (info.rare && plain.values.contains(info.name)) plain.values[std::string(info.name)] = info.default_value;
  }
  return plain;
}

// What few change, while nothing depends on it: it has its default or the gate's own number, and no other that few change
// has brought it into play, as `pool` does `drop`.
bool is_foldable(const Panel& panel, const PolicySpec& policy, const ParameterInfo& info) {
  if (!info.rare) return false;
  const Policy& rule = policy_of(policy);
  if (!rule.uses(policy, info.name)) return true;
  if (!rule.uses(without_rare(policy), info.name)) return false;
  const double value = policy.value(info.name);
  const auto own = own_number(panel.session.parameters().policy, info.name, panel.session.engine().gates());
  return value == info.default_value || (own && value == *own) || panel.session.parameters().policy.is_open(info.name);
}

void draw_fold(Panel& panel, int n_rare) {
  if (n_rare == 0) return;
  const views::FontScope font(panel.theme().fonts.small);
  const bool all = panel.ui.all_parameters;
  const std::string label =
      all ? "Fewer settings" : std::to_string(n_rare) + (n_rare == 1 ? " more setting" : " more settings");
  if (ImGui::Button((label + "###all_parameters").c_str())) panel.run("policy.all_parameters");
  panel.services.items->add_text("button.policy.all_parameters", views::last_item(), label);
}

}  // namespace

int shown_decimals(double value, int least) {
  const auto rounded = [value](int n) { return std::round(value * std::pow(10.0, n)) / std::pow(10.0, n); };
  for (int n = least; n < 6; ++n) {
    // Numbers of a gate may have been float32.
    if (std::abs(rounded(n) - value) < 1e-7 * std::max(1.0, std::abs(value))) return n;
  }
  // One with no end of digits has four significant ones, and as many more as tell it from a whole number.
  const int size = value == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::abs(value))));
  int n = std::clamp(3 - size, std::min(least, 6), 6);
  while (n < 6 && rounded(n) == std::round(value)) ++n;
  return n;
}

int share_decimals(double share) { return std::min(2, shown_decimals(100 * share, 0)); }

void draw_policy_parameters(Panel& panel) {
  const PolicySpec policy = panel.session.policy().in_effect();
  const PolicyInfo* info = find_policy(policy);
  if (!info) return;
  int n_rare = 0;
  for (const ParameterInfo& parameter : info->parameters) {
    if (!policy.values.contains(parameter.name)) continue;
    const bool foldable = is_foldable(panel, policy, parameter);
    n_rare += foldable;
    if (!foldable || panel.ui.all_parameters) draw_parameter(panel, policy, parameter);
  }
  draw_fold(panel, n_rare);
  draw_heads_note(panel, policy);
}

}  // namespace kvscope::app
