// The runs: which is A, which is B.

#include <string>

#include "app/window/panel.h"
#include "engine/core/support/text.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

using views::text_in;

// "kvpop keep=25 %, window=32": the name, the budget and what is not the default.
std::string short_policy(const PolicySpec& policy) {
  std::string text = policy.name;
  char number[48];
  if (policy.budget) {
    const char* format = policy.budget->kind == BudgetSpec::Kind::tokens ? " %.0f tokens"
                         : policy.budget->kind == BudgetSpec::Kind::keep ? " %.4g %%"
                                                                         : " %.4g×";
    const double value =
        policy.budget->kind == BudgetSpec::Kind::keep ? 100 * policy.budget->value : policy.budget->value;
    std::snprintf(number, sizeof number, format, value);
    text += number;
  }
  const PolicyInfo* info = find_policy(policy.name);
  for (const ParameterInfo& parameter : info ? info->parameters : std::span<const ParameterInfo>()) {
    const auto it = policy.values.find(parameter.name);
    if (it == policy.values.end() || it->second == parameter.default_value) continue;
    const bool has_name =
        parameter.kind == ParameterKind::choice || (!parameter.word.empty() && it->second == kWordValue);
    text += ", " + std::string(parameter.name) + " " +
            (has_name ? parameter_value(parameter, it->second) : number_text(it->second, 6));
  }
  return text;
}

std::string detail_of(const RunRecord& run) {
  std::string text =
      std::to_string(run.prompt_len) + " + " + std::to_string(std::max(0, run.n_tokens() - run.prompt_len)) + " tokens";
  if (run.status == RunStatus::complete && run.timings.decode_s > 0) {
    text += ", " + fixed_text(run.timings.decode_steps / run.timings.decode_s, 0) + " tok/s";
  } else if (run.status != RunStatus::complete) {
    text += ", " + std::string(to_string(run.status));
  }
  return text;
}

// A pill with the letter: filled where the run is on show in that place, a click puts it there.
void slot_button(Panel& panel, const char* letter, bool on, int run_id, bool is_a) {
  const auto& palette = panel.theme().palette;
  ImGui::PushStyleColor(ImGuiCol_Button, views::to_imgui(on ? palette.accent : palette.raised));
  ImGui::PushStyleColor(ImGuiCol_Text, views::to_imgui(on ? palette.background : palette.muted));
  ImGui::PushID(letter);
  if (ImGui::Button(letter, {panel.px(26), panel.px(24)})) {
    const int a = panel.session.a() ? panel.session.a()->id : 0, b = panel.session.b() ? panel.session.b()->id : 0;
    if (is_a) {
      panel.run("run.compare", {{"a", run_id}, {"b", run_id == b ? 0 : b}});
    } else {
      panel.run("run.compare", {{"a", a}, {"b", on ? 0 : run_id}});
    }
  }
  ImGui::PopID();
  ImGui::PopStyleColor(2);
  panel.item("run." + std::to_string(run_id) + (is_a ? ".a" : ".b"));
}

void draw_run(Panel& panel, const RunEntry& entry) {
  const auto& palette = panel.theme().palette;
  const RunRecord& run = *entry.run;
  ImGui::PushID(entry.id);
  slot_button(panel, "A", panel.session.a() == &entry, entry.id, true);
  ImGui::SameLine(0, panel.px(3));
  slot_button(panel, "B", panel.session.b() == &entry, entry.id, false);
  ImGui::SameLine(0, panel.px(10));
  ImGui::BeginGroup();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() - panel.px(3));
  std::string name = short_policy(run.policy);
  if (!run.changes.empty()) name = run.policy.name + " " + views::policy_history(run);
  text_in(palette.text, std::to_string(entry.id) + "   " + name);
  panel.services.items->add_text("run." + std::to_string(entry.id) + ".name", views::last_item(), name);
  if (ImGui::IsItemHovered()) tooltip(panel, run.policy.to_string() + (run.message.empty() ? "" : "\n" + run.message));
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() - panel.px(5));
  draw_text(panel.theme().fonts.small, run.status == RunStatus::failed ? palette.bad : palette.muted, detail_of(run));
  ImGui::EndGroup();
  if (ImGui::BeginPopupContextItem("run_menu")) {
    if (ImGui::MenuItem("Copy as command")) panel.run("run.copy_command", {{"id", entry.id}});
    if (ImGui::MenuItem("Save as trace ...")) panel.run("trace.save", {{"id", entry.id}});
    if (ImGui::MenuItem("Remove from the list")) panel.run("run.remove", {{"id", entry.id}});
    ImGui::EndPopup();
  }
  ImGui::PopID();
}

}  // namespace

void draw_runs_panel(Panel& panel) {
  section(panel, "Runs");
  if (panel.session.runs().empty()) {
    const views::FontScope font(panel.theme().fonts.small);
    views::wrapped_text_in(panel.theme().palette.muted, "None yet. Run the prompt, or open a trace with Ctrl+O.");
    return;
  }
  // A copy: a click may remove an entry.
  const std::vector<RunEntry> entries = panel.session.runs();
  for (auto it = entries.rbegin(); it != entries.rend(); ++it) {
    if (const RunEntry* entry = panel.session.find_run(it->id)) draw_run(panel, *entry);
  }
}

}  // namespace kvscope::app
