// Studies: those that were started, each with what can be done about it, and the form that starts another one.

#include <imgui.h>
#include <misc/cpp/imgui_stdlib.h>  // after imgui.h, which it needs but does not include

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>

#include "app/session/study_form.h"
#include "app/window/panel.h"
#include "app/window/popup.h"
#include "engine/core/support/error.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"

namespace kvscope::app {
namespace {

constexpr float kNameWidth = 120, kBrowseWidth = 78;  // design pixels
constexpr std::size_t kMostMessage = 300;             // bytes; the log has the whole line

/// A small button for a command on this study, on the line of the one before.
void job_button(Panel& panel, const StudyJob& job, const char* label, const char* command) {
  ImGui::SameLine();
  const bool pressed = ImGui::SmallButton(label);
  panel.item(std::string("studies.") + command + "." + std::to_string(job.id));
  if (pressed) panel.run(command, {{"id", job.id}});
}

void draw_job(Panel& panel, const StudyJob& job) {
  const auto& palette = panel.theme().palette;
  const bool failed = job.state == StudyJob::State::failed;
  ImGui::PushID(job.id);
  const std::string name = job.command() + "  " + std::filesystem::path(job.output()).filename().string();
  draw_text(panel.theme().fonts.bold, palette.text, escape_for_terminal(name, 120));
  if (job.is_running()) {
    job_button(panel, job, job.state == StudyJob::State::stopping ? "Stop now" : "Stop", "study.stop");
  } else if (job.state == StudyJob::State::complete) {
    job_button(panel, job, "Open", "study.open_result");
  } else {
    job_button(panel, job, "Resume", "study.resume");
  }
  job_button(panel, job, "Copy as command", "study.copy_command");
  if (!job.is_running()) job_button(panel, job, "Remove", "study.forget");
  std::string text(to_string(job.state));
  if (job.is_running()) text += ": " + job.progress.line();
  if (!job.is_running() && !job.message.empty()) text += ": " + job.message;
  const views::FontScope small(panel.theme().fonts.small);
  views::wrapped_text_in(failed ? palette.bad : palette.muted, escape_for_terminal(text, kMostMessage));
  panel.services.items->add_text("studies.job." + std::to_string(job.id), views::last_item(), text);
  if (job.is_running() && job.progress.max > 0)
    ImGui::ProgressBar(static_cast<float>(std::clamp(job.progress.value / job.progress.max, 0.0, 1.0)),
                       {-1, panel.px(5)}, "");
  ImGui::PopID();
}

void draw_jobs(Panel& panel) {
  const std::vector<StudyJob> jobs = panel.session.study_jobs().all();  // a button may change them
  if (jobs.empty())
    return views::wrapped_text_in(panel.theme().palette.muted,
                                  "None yet. A study runs as a separate process. You can stop and resume it.");
  ImGui::BeginChild("jobs", {0, std::min(panel.px(52) * static_cast<float>(jobs.size()) + panel.px(8),
                                         ImGui::GetIO().DisplaySize.y * 0.26f)});
  for (const StudyJob& job : jobs) draw_job(panel, job);
  ImGui::EndChild();
}

/// What sort of study the form is for.
const StudyForm& draw_kinds(Panel& panel) {
  const std::vector<StudyForm>& forms = panel.session.study_jobs().forms();
  const StudyForm* chosen = &forms.front();
  for (const StudyForm& form : forms) {
    const bool on = form.command == panel.ui.study_command;
    if (on) chosen = &form;
    if (views::line_button(panel.services, ("studies.kind." + form.command).c_str(), form.title, form.summary, on,
                           &form == &forms.front()))
      panel.run("study.jobs", {{"command", form.command}});
  }
  return *chosen;
}

void draw_field(Panel& panel, const StudyField& field, std::string& text) {
  ImGui::PushID(field.name.c_str());
  ImGui::AlignTextToFramePadding();
  std::string label = field.name == "o" ? "output" : field.name;
  if (field.is_positional)
    std::ranges::transform(label, label.begin(), [](unsigned char c) { return std::tolower(c); });
  views::text_in(panel.theme().palette.text, label);
  tooltip(panel, field.help);
  ImGui::SameLine(panel.px(kNameWidth));
  const std::string item = "studies.field." + field.name;
  if (field.value.empty()) {
    bool on = text == "on";
    if (ImGui::Checkbox("##on", &on)) text = on ? "on" : "";
    panel.item(item);
    ImGui::SameLine();
    views::text_in(panel.theme().palette.muted, field.help);
  } else {
    const float room = ImGui::GetContentRegionAvail().x - (is_path(field) ? panel.px(kBrowseWidth) + panel.px(8) : 0);
    if (field.repeats) {
      ImGui::InputTextMultiline("##text", &text, {room, 2 * ImGui::GetTextLineHeight() + panel.px(8)});
    } else {
      ImGui::SetNextItemWidth(room);
      const bool is_choice = field.value.find('|') != std::string::npos;
      ImGui::InputTextWithHint("##text", (is_choice ? field.value : field.help).c_str(), &text);
    }
    panel.services.items->add_text(item, views::last_item(), text);
    tooltip(panel, field.repeats ? field.help + "; one per line" : field.help);
    if (is_path(field)) {
      ImGui::SameLine();
      const bool pressed = ImGui::Button("Browse", {panel.px(kBrowseWidth), 0});
      panel.item("studies.browse." + field.name);
      if (pressed) panel.run("study.field", {{"field", field.name}});
    }
  }
  ImGui::PopID();
}

void draw_form(Panel& panel) {
  const StudyForm& form = draw_kinds(panel);
  StudyValues& values = panel.ui.study_values[form.command];
  views::wrapped_text_in(panel.theme().palette.muted, form.summary);
  const float buttons = ImGui::GetFrameHeightWithSpacing() + panel.px(6);
  ImGui::BeginChild("fields", {0, -buttons});
  for (const bool main : {true, false}) {
    if (!main) {
      ImGui::Checkbox("All options", &panel.ui.all_study_fields);
      panel.item("studies.all");
      if (!panel.ui.all_study_fields) break;
    }
    for (const StudyField& field : form.fields)
      if (field.is_main == main) draw_field(panel, field, values[field.name]);
  }
  ImGui::EndChild();
  command_button(panel, "Start", "study.start", {panel.px(110), 0}, true);
  ImGui::SameLine();
  command_button(panel, "Copy as command", "study.copy_command");
  if (form.command == "sweep") {
    ImGui::SameLine();
    command_button(panel, "Write a recipe", "study.new_recipe");
  }
  const std::string why = panel.commands.refusal(*panel.commands.find("study.start"));
  if (why.empty()) return;
  ImGui::SameLine();
  views::text_in(panel.theme().palette.warn, why);
  panel.services.items->add_text("studies.why_not", views::last_item(), why);
}

}  // namespace

void draw_studies(Panel& panel) {
  if (!panel.ui.studies || panel.session.study_jobs().forms().empty()) return;
  if (begin_popup(panel, "studies", 860, 760)) {
    draw_text(panel.theme().fonts.title, panel.theme().palette.text, "Studies");
    ImGui::SameLine(views::right_edge() - panel.px(70));
    if (ImGui::Button("Close", {panel.px(70), 0})) panel.ui.studies = false;
    panel.item("studies.close");
    draw_jobs(panel);
    section(panel, "New study");
    draw_form(panel);
  }
  ImGui::End();
}

}  // namespace kvscope::app
