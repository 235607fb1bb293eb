// The line at the bottom: what is going on, how fast, how long still.

#include <algorithm>
#include <cstdint>
#include <string>

#include "app/support/slow_read.h"
#include "app/window/panel.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "views/widgets/chrome.h"

namespace kvscope::app {
namespace {

void draw_bar(Panel& panel, double share) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = panel.px(140), height = panel.px(6), y = at.y + (ImGui::GetTextLineHeight() - height) / 2;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const auto& palette = panel.theme().palette;
  list.AddRectFilled({at.x, y}, {at.x + width, y + height}, views::to_imgui(palette.border), height / 2);
  list.AddRectFilled({at.x, y}, {at.x + width * static_cast<float>(std::clamp(share, 0.0, 1.0)), y + height},
                     views::to_imgui(palette.accent), height / 2);
  ImGui::Dummy({width + panel.px(10), height});
  ImGui::SameLine();
}

/// What is on show: of which query, head and runs.
std::string words_of_shown(Session& session) {
  std::string text;
  const views::ShownRun* a = session.runs().shown_a();
  if (!a) return text;
  const int divergence = session.runs().divergence();
  if (session.runs().shown_b() && !session.runs().shown_b()->preview) {
    text =
        divergence < 0 ? "A and B: same tokens    " : "A and B diverge at token " + std::to_string(divergence) + "    ";
  }
  if (!session.runs().shown_b() && session.runs().b() && session.runs().b()->run->n_tokens() > 0) {
    const std::string& model = session.runs().b()->run->model.name;
    text = "B" + (model.empty() ? std::string() : " (" + model + ")") +
           " has different layers or heads: no comparison    ";
  }
  const views::Cursor at = views::cursor(session.selection(), *a->run);
  if (const auto set = session.runs().chosen(); !set.empty())
    text += std::to_string(set.size()) + " runs combined    ";  // how many have a value the map says
  return text + "layer " + std::to_string(at.layer) + "  head " + std::to_string(at.kv_head) + "    query " +
         std::to_string(at.q) + " of " + std::to_string(a->run->n_tokens() - 1);
}

std::string megabytes(std::uint64_t bytes) { return fixed_text(static_cast<double>(bytes) / 1e6, 1); }

/// What goes on, or was said last.
void draw_task(Panel& panel) {
  const auto& palette = panel.theme().palette;
  Session& session = panel.session;
  const TaskProgress& progress = session.engine().progress();
  const auto slow = slow_read();
  std::string text;
  views::Colour colour = palette.text;
  if (slow) {
    command_button(panel, "Stop waiting", "file.give_up");
    ImGui::SameLine();
    text = escape_for_terminal(slow->path, 160) + ": the machine is busy or the disk does not respond (" +
           std::to_string(slow->seconds) + " s)";
  } else if (const auto copying = session.remote().copying()) {
    command_button(panel, "Stop waiting", "file.give_up");
    ImGui::SameLine();
    if (copying->total > 0) draw_bar(panel, static_cast<double>(copying->done) / static_cast<double>(copying->total));
    text = (copying->total > 0 ? "copying " : "connecting to copy ") + escape_for_terminal(copying->word, 200);
    if (copying->total > 0) text += ": " + megabytes(copying->done) + " of " + megabytes(copying->total) + " MB";
  } else if (std::string silence = session.engine().silence(); !silence.empty()) {
    text = std::move(silence);
    colour = palette.warn;
  } else if (!progress.phase.empty()) {
    if (progress.max > 0) draw_bar(panel, progress.value / progress.max);
    text = progress.line();
  } else if (const auto job = std::ranges::find_if(session.study_jobs().all(), &StudyJob::is_running);
             job != session.study_jobs().all().end()) {
    command_button(panel, "Studies", "study.jobs");
    ImGui::SameLine();
    if (job->progress.max > 0) draw_bar(panel, job->progress.value / job->progress.max);
    text = job->command() + ": " + job->progress.line();
  } else if (const auto& reading = session.traces().reading()) {
    draw_bar(panel, static_cast<double>(reading->n_read) / reading->n_runs);
    text = escape_for_terminal(reading->path, 200) + ": run " + std::to_string(reading->n_read + 1) + " of " +
           std::to_string(reading->n_runs);
  } else if (session.messages().notice_is_fresh()) {
    text = escape_for_terminal(session.messages().notice(), 300);
  } else {
    text = session.engine().state() == EngineState::dead ? "engine stopped"
           : session.engine().state() == EngineState::none
               ? "no engine"
               : "engine " + std::string(to_string(session.engine().state()));
    colour = palette.muted;
  }
  views::text_in(colour, text);
  panel.services.items->add_text("status", views::last_item(), text);
}

}  // namespace

float draw_status_bar(Panel& panel, float line) {
  const views::FontScope font(panel.theme().fonts.small);
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  const float margin = panel.px(16), least = panel.px(150);  // of what goes on
  const std::string right = words_of_shown(panel.session);
  float end = size.x - margin;
  const float width = ImGui::CalcTextSize(right.c_str()).x;
  // A message goes before what the views say too.
  if (!right.empty() && (line == 0 || end - width - margin - line > least)) {
    ImGui::SetCursorPos({end - width, panel.px(5)});
    views::text_in(panel.theme().palette.muted, right);
    panel.services.items->add_text("status.shown", views::last_item(), right);
    end -= width + margin;
  }
  ImGui::SetCursorPos({margin, panel.px(5)});
  ImGui::PushClipRect(at, {at.x + end - (line > 0 ? line + margin : 0), at.y + size.y}, true);
  draw_task(panel);
  ImGui::PopClipRect();
  return at.x + end;
}

void draw_log(Panel& panel) {
  const views::FontScope font(panel.theme().fonts.mono);
  ImGui::BeginChild("log_lines", {0, 0}, false, ImGuiWindowFlags_HorizontalScrollbar);
  for (const std::string& line : panel.session.messages().log_lines()) {
    views::text_in(panel.theme().palette.muted, escape_for_terminal(line, 1000));
  }
  if (ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1) ImGui::SetScrollHereY(1);
  ImGui::EndChild();
}

}  // namespace kvscope::app
