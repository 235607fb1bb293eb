// The policy: controls made from its declaration. A change shows a preview; "Decode again" measures it.

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "app/catalog/gates.h"
#include "app/session/gate_title.h"
#include "app/session/match_a.h"
#include "app/window/budget_control.h"
#include "app/window/obstacle_note.h"
#include "app/window/panel.h"
#include "app/window/parameter_controls.h"
#include "engine/core/policy/policy.h"
#include "engine/core/policy/run_problems.h"
#include "engine/core/record/run_gate.h"
#include "engine/core/study/measure/what_if.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

using views::text_in;
using views::wrapped_text_in;

// Another policy at the same budget, where it has the means: comparing them is what it is chosen for.
std::string spec_of_choice(const Panel& panel, const PolicyInfo& policy) {
  const PolicySpec& now = panel.session.parameters().policy;
  const int n_positions = panel.session.policy().n_positions();
  const int tokens = n_positions > 0 ? now.budget_tokens(n_positions) : 0;
  std::string spec(policy.name);
  const auto find = [&](std::string_view name) {
    return std::ranges::find(policy.parameters, name, &ParameterInfo::name);
  };
  const auto has = [&](std::string_view name) { return find(name) != policy.parameters.end(); };
  if (policy.has_budget) {
    PolicySpec chosen = PolicySpec::parse(spec + ":keep=50%");
    const RunEntry* a = panel.session.runs().a();
    if (now.budget) {
      chosen.budget = now.budget;
    } else if (const auto& last = panel.session.next_run().last_budget()) {
      chosen.budget = last;  // a policy without one came between
    } else if (a && a->run->policy.budget) {
      chosen.budget = a->run->policy.budget;
    }
    spec = chosen.written();
    // A window made for long texts would take more than a short one's budget. A scorer's window is its own.
    const int budget = n_positions > 0 ? chosen.budget_tokens(n_positions) : 0;
    if (!policy.needs_scorer && n_positions > 0 && has("window") && find("window")->default_value >= budget)
      spec += ",window=" + std::to_string(std::max(1, budget / 2));
    return spec;
  }
  if (policy.needs_scorer || !has("sinks") || !has("window") || tokens <= 4) return spec;
  return spec + ":sinks=4,window=" + std::to_string(tokens - 4);
}

// The gates that were found for the model and that a policy was made for, each as a separate choice: taking one loads it.
void draw_gate_choices(Panel& panel, const PolicyInfo& policy) {
  const PolicySpec plain = PolicySpec::parse(policy.name);
  if (policy.gates.empty()) return;
  for (const GateFacts& gate : panel.session.policy().gates().found()) {
    if (!reads_gate(plain, gate.kind)) continue;
    const bool used = policy.name == panel.session.parameters().policy.name && panel.session.policy().is_used(gate);
    const std::string label = "      " + gate_title(gate) + "  (" + gate.decision + ")##" + gate.gate.path.string();
    if (ImGui::Selectable(label.c_str(), used, gate.fits() ? 0 : ImGuiSelectableFlags_Disabled))
      panel.run("policy.set", {{"policy", spec_of_choice(panel, policy)}, {"gate", gate.gate.name}});
    panel.item("policy.choice." + std::string(policy.name) + "." + gate.gate.name);
    tooltip(panel, gate.fits() ? gate.gate.path.string() : gate.misfit);
  }
}

std::string title_with_gate(const Panel& panel, const PolicyInfo& policy) {
  std::string title(policy.title);
  const GateFacts* gate = panel.session.policy().gate();
  if (gate) return title + ": " + gate_title(*gate);
  // A directory of heads that a study left is not among the gates that were found for the model.
  const EngineLink& engine = panel.session.engine();
  const PolicySpec& spec = panel.session.parameters().policy;
  if (!engine.gates().heads || !policy_of(spec).reads_heads(spec)) return title;
  const auto& found = panel.session.policy().gates().found();
  for (const std::string& path : engine.gates_to_load()) {
    if (std::ranges::none_of(found, [&](const GateFacts& facts) { return facts.gate.path == path; }))
      return title + ": " + gate_title(std::filesystem::path(path));
  }
  return title;
}

// In the order of what the user has to provide.
enum class PolicyGroup { nothing, attention, gate_here, gate_missing };
constexpr std::array<std::string_view, 4> kGroups = {"Needs nothing", "Uses attention", "Gated (available)",
                                                     "Gated (no gate found)"};

PolicyGroup group_of(const Panel& panel, const PolicyInfo& policy) {
  const PolicySpec plain = PolicySpec::parse(policy.name);
  const PolicyNeed need = need_of(plain);
  if (need != PolicyNeed::gate) return need == PolicyNeed::nothing ? PolicyGroup::nothing : PolicyGroup::attention;
  const auto& model = panel.session.engine().model();
  const GatesOfModel& gates = panel.session.engine().gates();
  const bool unlisted = model && gates.scorers.empty() && !model->scorer.empty();
  const bool here = (model && has_gate_for(plain, gates)) || unlisted ||
                    std::ranges::any_of(panel.session.policy().gates().found(), [&](const GateFacts& gate) {
                      return gate.fits() && reads_gate(plain, gate.kind);
                    });
  return here ? PolicyGroup::gate_here : PolicyGroup::gate_missing;
}

void draw_group_title(Panel& panel, const std::string& item, std::string_view title) {
  const views::FontScope small(panel.theme().fonts.small);
  text_in(panel.theme().palette.muted, title);
  panel.services.items->add_text(item, views::last_item(), std::string(title));
}

// One that the engine cannot run is there, with the reason.
void draw_policy(Panel& panel, const PolicyInfo& policy, std::string_view group) {
  const bool chosen = &policy == find_policy(panel.session.parameters().policy);
  const std::string why_not = protocol::why_no_policy(panel.session.engine().offer(), PolicySpec::parse(policy.name));
  const std::string label = "  " + std::string(policy.title) + "##" + std::string(policy.name);
  if (ImGui::Selectable(label.c_str(), chosen, why_not.empty() ? 0 : ImGuiSelectableFlags_Disabled))
    panel.run("policy.set", {{"policy", spec_of_choice(panel, policy)}});
  if (chosen) ImGui::SetItemDefaultFocus();  // arrows go on from it
  if (chosen && ImGui::IsWindowAppearing()) ImGui::SetScrollHereY();
  panel.services.items->add_text("policy.choice." + std::string(policy.name), views::last_item(), std::string(group));
  tooltip(panel, why_not.empty() ? policy.definition : std::string_view(why_not));
}

void draw_policy_group(Panel& panel, PolicyGroup group) {
  const std::string_view title = kGroups[static_cast<std::size_t>(group)];
  bool first = true;
  for (const PolicyInfo& policy : policy_list()) {
    if (group_of(panel, policy) != group) continue;
    if (std::exchange(first, false))
      draw_group_title(panel, "policy.group." + std::to_string(static_cast<int>(group)), title);
    draw_policy(panel, policy, title);
    draw_gate_choices(panel, policy);
  }
}

// What the engine declares, under its name.
void draw_declared_group(Panel& panel) {
  const protocol::EngineOffer& offer = panel.session.engine().offer();
  const std::string title = offer.name.empty() ? "Policies of the engine" : offer.name;
  if (!offer.policies.empty()) draw_group_title(panel, "policy.group.engine", title);
  for (const DeclaredPolicy* policy : offer.policies) draw_policy(panel, policy->policy.info, title);
}

void draw_policy_choice(Panel& panel) {
  const PolicySpec& now = panel.session.parameters().policy;
  const PolicyInfo* info = find_policy(now);
  ImGui::SetNextItemWidth(-1);
  const PopupStyle style(panel);
  const std::string title = info ? title_with_gate(panel, *info) : now.name;
  if (views::begin_combo("##policy", title, ImGuiComboFlags_HeightLargest)) {
    for (const PolicyGroup group :
         {PolicyGroup::nothing, PolicyGroup::attention, PolicyGroup::gate_here, PolicyGroup::gate_missing})
      draw_policy_group(panel, group);
    draw_declared_group(panel);
    ImGui::Separator();
    if (ImGui::Selectable("Load a gate ...")) panel.run("gate.open");
    panel.item("policy.load_gate");
    ImGui::EndCombo();
  }
  panel.services.items->add_text("policy.combo", views::last_item(), title);
  if (info) tooltip(panel, title + "\n" + std::string(info->definition));  // the gate's part of it may be cut
}

// What the change means for what is on show: measured, preview, or why there is none.
void draw_preview_note(Panel& panel) {
  Session& session = panel.session;
  const auto& palette = panel.theme().palette;
  const views::FontScope font(panel.theme().fonts.small);
  if (const auto list = obstacles(session, RunKind::start); !list.empty() && !list.front().passes)
    return draw_obstacles(panel, list);
  if (session.run_in_progress()) {
    const std::string why_not = protocol::why_no_service(session.engine().offer(), "policy");
    ImGui::BeginDisabled(!why_not.empty());
    if (ImGui::Button("Apply to the run")) panel.run("run.apply_policy");
    ImGui::EndDisabled();
    panel.item("button.run.apply_policy");
    tooltip(
        panel,
        !why_not.empty()
            ? why_not
            : "Apply threshold, decay, stride, drop or a smaller budget from the next token. The trace records the change.");
  }
  if (!session.runs().shown_a()) return;
  if (session.preview().shown()) {
    const RunRecord& preview = *session.preview().run();
    const std::string note = session.runs().a() ? what_if_note(*session.runs().a()->run, preview) : "";
    const bool by_gates = session.runs().a() && !(preview.scorer == session.runs().a()->run->scorer);
    const std::vector<Obstacle> in_the_way = obstacles(session, RunKind::decode_again);
    const std::string measure = in_the_way.empty() ? " Decode again to measure it." : "";
    const std::string gate = gate_of(preview);
    const ScoreSource source = policy_of(preview.policy).plan(preview.policy, preview.geometry()).source;
    const bool by_future = source == ScoreSource::future;
    std::string text = "Preview: estimated from A's recorded " +
                       std::string(by_future ? "future attention" : "scores") +
                       (gate.empty() ? "" : " of gate " + gate) + "." + measure;
    if (source == ScoreSource::none) {
      text = session.run_in_progress() ? "Preview: what this policy would keep, updated as A runs."
                                       : "Preview: this policy uses no scores." + measure;
    } else if (by_gates) {
      text = "Preview: " + note + "." + measure;
    } else if (session.run_in_progress()) {
      text = "Preview: what this policy would keep, estimated from A's scores and updated as A runs.";
    }
    wrapped_text_in(palette.preview, text);
    panel.services.items->add_text("policy.preview_note", views::last_item(), text);
    if (!by_gates && !note.empty()) wrapped_text_in(palette.warn, "Note: " + note + ".");
    draw_obstacles(panel, in_the_way);
    if (ImGui::Button("Back to A's policy")) panel.run("preview.discard");
    panel.item("button.preview.discard");
  } else if (session.preview().pending()) {
    text_in(palette.muted, session.policy().gate_probe().pending() ? "Scoring A's tokens with the gates ..."
                                                                   : "Computing the preview ...");
  } else if (!session.preview().note().empty()) {
    std::string why_not = session.policy().gate_probe().why_not();
    if (why_not.empty()) why_not = session.preview().note();
    if (const PolicySpec& policy = session.parameters().policy;
        !policy_of(policy).plan(policy, {}).follows_from_scores())
      why_not = policy.declared != nullptr
                    ? "the rule of this policy is the engine's. Decode again to see what it evicts."
                    : "its evictions depend on its own attention. Decode again to see them.";
    if (const std::size_t hint = why_not.find("; hint: run the model under "); hint != std::string::npos)
      why_not = why_not.substr(0, hint) + ". Decode again to see it.";
    wrapped_text_in(palette.warn, "No preview: " + why_not);
    panel.services.items->add_text("policy.no_preview", views::last_item(), why_not);
  } else if (session.policy().is_of(*session.runs().shown_a()->run)) {
    text_in(palette.muted, "A was decoded under this policy.");
  } else if (session.runs().shown_b()) {
    const bool same = session.policy().is_of(*session.runs().shown_b()->run);
    wrapped_text_in(palette.muted, same ? "B was decoded under this policy."
                                        : "B was decoded under another policy. Change this one to preview it.");
  }
}

// The way to as many tokens as A held, for policies that are to be compared at one size.
void draw_match(Panel& panel) {
  if (panel.session.runs().shown_a() == nullptr || panel.session.run_in_progress() || matches_a(panel.session)) return;
  const std::string why_not = why_no_match(panel.session);
  ImGui::BeginDisabled(!why_not.empty());
  if (ImGui::SmallButton("Match A's cache size")) panel.run("policy.match_cache");
  ImGui::EndDisabled();
  panel.services.items->add_text("policy.match_cache", views::last_item(), why_not);
  tooltip(panel, why_not.empty() ? "Give this policy as many tokens as A held at its end" : why_not);
}

}  // namespace

void draw_policy_panel(Panel& panel) {
  section(panel, "Policy");
  draw_policy_choice(panel);
  draw_budget(panel);
  draw_match(panel);
  draw_policy_parameters(panel);
  draw_preview_note(panel);
  draw_sampling(panel);
  draw_measures(panel);
}

}  // namespace kvscope::app
