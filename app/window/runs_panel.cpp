// The runs: which is A, which is B. Runs of one trace are one entry, and what failed at once is out of the way.

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/window/panel.h"
#include "app/window/run_row.h"
#include "engine/core/support/error.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/rebuild.h"

namespace kvscope::app {
namespace {

using views::text_in;

/// The run that the list scrolls to. Over some frames: the list gets its room as it is seen how long it is.
struct Reveal {
  int seen = 0, id = 0, frames = 0;
  float height = 0;  // of the list
};
Reveal reveal;

// Where the list loses room, as settings above it come, the run on show must not go with it.
void look_for_reveal(const Session& session) {
  const Runs::InSight& now = session.runs().in_sight();
  const bool shrank = std::exchange(reveal.height, ImGui::GetWindowHeight()) > ImGui::GetWindowHeight();
  if (now.n != reveal.seen) {
    reveal.seen = now.n, reveal.id = now.id, reveal.frames = 4;
  } else if (shrank && reveal.id == 0 && session.runs().a()) {
    reveal.id = session.runs().a()->id, reveal.frames = 4;
  }
}

/// What is between `top` and the cursor, of the run that is to be seen.
void scroll_to(float top) {
  const float bottom = ImGui::GetCursorScreenPos().y, list = ImGui::GetWindowPos().y, height = ImGui::GetWindowHeight();
  if (top < list) ImGui::SetScrollFromPosY(top - list, 0);
  if (bottom > list + height) ImGui::SetScrollFromPosY(bottom - list, 1);
  views::want_frame();
  if (--reveal.frames == 0) reveal.id = 0;
}

void draw_row(Panel& panel, const RunEntry& entry) {
  const bool revealed = entry.id == reveal.id;
  const float top = ImGui::GetCursorScreenPos().y;
  draw_run_row(panel, entry, panel.session.run_list().of(entry.id));
  if (revealed) scroll_to(top);
}

// The runs of one trace: a line with previous and next, folded until the user opens it.
void draw_trace(Panel& panel, const std::string& path, const std::vector<RunEntry>& runs) {
  const int a = panel.session.runs().a_id();
  const auto shown = std::ranges::find(runs, a, &RunEntry::id);
  const int n = static_cast<int>(runs.size()),
            at = shown == runs.end() ? 0 : static_cast<int>(shown - runs.begin()) + 1;
  const std::string name = escape_for_terminal(std::filesystem::path(path).filename().string(), 60);
  const std::string item = "trace." + name,
                    place = at > 0 ? std::to_string(at) + " of " + std::to_string(n) : std::to_string(n) + " runs";
  const bool all = std::ranges::equal(runs, panel.session.selection().runs, {}, &RunEntry::id);
  const float top = ImGui::GetCursorScreenPos().y;
  ImGui::PushID(path.c_str());
  const bool open = fold(panel, name + "   " + place, item, false);
  const float side = panel.px(24), buttons = views::right_edge() - 3 * side - panel.px(54);
  if (ImGui::GetIO().MousePos.x < ImGui::GetWindowPos().x + buttons) tooltip(panel, path);  // they have their own
  ImGui::SameLine(buttons);
  {
    const views::ButtonStyle style(views::accent_button(panel.theme()), all);
    if (ImGui::Button("All", {panel.px(42), 0})) panel.run("runs.choose", {{"trace", path}});
  }
  panel.services.items->add_text(item + ".all", views::last_item(), all ? "on" : "off");
  tooltip(panel, all ? "Maps cover all runs of this trace. Click for A only"
                     : "Show maps over all runs of this trace. Ctrl+click a run to add it");
  ImGui::SameLine(0, panel.px(4));
  const auto step = [&](const char* label, const char* command, const char* suffix) {
    ImGui::BeginDisabled(at == 0 && n == 0);
    if (ImGui::Button(label, {side, 0})) {
      panel.run(command, {{"trace", path}});
      reveal.seen =
          panel.session.runs().in_sight().n;  // the list stays: the button is under the mouse for the next one
    }
    ImGui::EndDisabled();
    panel.item(item + suffix);
  };
  step("<", "run.previous_in_trace", ".previous");
  tooltip(panel, "Show the previous run of this trace as A");
  ImGui::SameLine(0, panel.px(4));
  step(">", "run.next_in_trace", ".next");
  tooltip(panel, "Show the next run of this trace as A");
  ImGui::SameLine(0, panel.px(4));
  if (ImGui::Button("×", {side, 0})) panel.run("trace.close", {{"trace", path}});
  panel.item(item + ".close");
  tooltip(panel, "Close this trace: removes its runs from the list (Ctrl+Z to undo)");
  if (open) {
    for (const RunEntry& run : runs) {
      if (const RunEntry* entry = panel.session.runs().find(run.id)) draw_row(panel, *entry);
    }
  } else if (const RunEntry* entry = panel.session.runs().find(a); at > 0 && entry) {
    draw_run_row(panel, *entry, panel.session.run_list().of(a));  // unless its trace was closed just now
  }
  if (!open && std::ranges::count(runs, reveal.id, &RunEntry::id) > 0) scroll_to(top);
  ImGui::PopID();
}

bool was_stopped(const RunEntry& entry) { return entry.run->status == RunStatus::cancelled; }

/// "2 failed runs", "1 run stopped early"
std::string describe_failed(const std::vector<RunEntry>& failed) {
  const std::string runs = failed.size() == 1 ? " run" : " runs", n = std::to_string(failed.size());
  const auto stopped = static_cast<std::size_t>(std::ranges::count_if(failed, was_stopped));
  if (stopped == 0) return n + " failed" + runs;
  return n + runs + (stopped == failed.size() ? " stopped early" : " failed or stopped early");
}

void draw_failed(Panel& panel, const std::vector<RunEntry>& failed) {
  if (failed.empty()) return;
  if (!fold(panel, describe_failed(failed), "runs.failed", false)) return;
  for (const RunEntry& entry : failed) {
    ImGui::PushID(entry.id);
    if (ImGui::SmallButton("Remove")) panel.run("run.remove", {{"id", entry.id}});
    panel.item("run." + std::to_string(entry.id) + ".remove");
    ImGui::SameLine();
    const views::FontScope small(panel.theme().fonts.small);
    const std::string why = was_stopped(entry) ? "stopped before its prompt was read" : entry.run->message;
    const std::string words = std::to_string(entry.id) + "   " + escape_for_terminal(why, 400);
    wrapped_text_in(was_stopped(entry) ? panel.theme().palette.muted : panel.theme().palette.bad, words);
    panel.services.items->add_text("run." + std::to_string(entry.id) + ".message", views::last_item(), words);
    ImGui::PopID();
  }
}

}  // namespace

void draw_runs_panel(Panel& panel) {
  const ImVec2 list = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  panel.services.items->add("runs.list", {list.x, list.y, size.x, size.y});
  section(panel, "Runs");
  // A copy: a click may remove an entry.
  const std::vector<RunEntry> entries = panel.session.runs().all();
  if (entries.empty()) {
    const views::FontScope font(panel.theme().fonts.small);
    views::wrapped_text_in(panel.theme().palette.muted, "None yet. Run the prompt, or open a trace with Ctrl+O.");
    return;
  }
  look_for_reveal(panel.session);
  std::set<std::string> drawn;
  std::vector<RunEntry> failed;
  for (auto it = entries.rbegin(); it != entries.rend(); ++it) {
    if (!has_row(*it)) {
      failed.push_back(*it);
      continue;
    }
    std::vector<RunEntry> together;
    if (!it->trace_path.empty())
      std::ranges::copy_if(entries, std::back_inserter(together),
                           [&](const RunEntry& other) { return other.trace_path == it->trace_path; });
    if (together.size() < 2) {
      if (const RunEntry* entry = panel.session.runs().find(it->id)) draw_row(panel, *entry);
    } else if (drawn.insert(it->trace_path).second) {
      draw_trace(panel, it->trace_path, together);
    }
  }
  draw_failed(panel, failed);
}

}  // namespace kvscope::app
