// One line over the views: what the evictions of A cost, each finding a click to where it is seen.

#include <imgui.h>

#include <cmath>
#include <string>
#include <vector>

#include "app/support/paths.h"
#include "app/window/layout_bar.h"
#include "app/window/panel.h"
#include "engine/core/support/text.h"
#include "views/figure/token_text.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::app {
namespace {

struct Finding {
  const char* item;
  std::string text, brief;  // brief: where the line is short
  const char* command;
  std::string hint;
};

std::string head_text(int layer, int kv_head) { return "L" + std::to_string(layer) + " H" + std::to_string(kv_head); }

Finding of_wrong(const EvictionHeadline& found) {
  const std::string share = wrong_share_text(found);
  return {"headline.wrong", share + " of evictions were wrong", share + " wrong", "view.colour_oracle",
          std::to_string(found.wrong) + " of " + std::to_string(found.judged) +
              " evictions with a verdict: the oracle would have kept the token. Click to colour tokens by verdict."};
}

Finding of_head(const EvictionHeadline::Head& worst) {
  const std::string head = head_text(worst.layer, worst.kv_head);
  return {"headline.head", "worst head " + head, "worst " + head, "selection.worst_head",
          std::to_string(worst.wrong) + " of the " + std::to_string(worst.judged) +
              " evictions of this head were wrong, more than in any other head. Click to select it."};
}

Finding of_token(const EvictionHeadline::Token& token, const RunRecord& run) {
  const std::string label = "\"" + views::token_label(run.pieces[static_cast<std::size_t>(token.t)], 14) + "\"";
  return {"headline.token", "costliest lost token " + label, "lost " + label, "selection.costliest_token",
          "Token " + std::to_string(token.t) + ": " + std::to_string(token.n_heads) +
              (token.n_heads == 1 ? " head" : " heads") + " evicted it wrongly. Together they lost " +
              fixed_text(token.mass, 3) +
              " of later attention (future mass, the mean share per later query, summed over these heads). Click to "
              "select the token in head " +
              head_text(token.layer, token.kv_head) + ", which lost most."};
}

std::vector<Finding> findings(const EvictionHeadline& found, const RunRecord& run) {
  std::vector<Finding> list = {of_wrong(found)};
  if (found.worst) list.push_back(of_head(*found.worst));
  if (found.costliest) list.push_back(of_token(*found.costliest, run));
  return list;
}

constexpr float kLeastText = 330;

/// Why there is no finding.
std::string why_none(const RunRecord& run, const RunSummary* summary) {
  if (run.status == RunStatus::running) return "Verdicts on the evictions appear when the run has ended.";
  if (summary == nullptr) return "Judging the evictions ...";
  if (run.future_mass.empty()) return "No oracle in this run, so its evictions have no verdicts.";
  return "This run has no eviction to judge.";
}

float button_width(const std::string& text) {
  return ImGui::CalcTextSize(text.c_str()).x + 2 * ImGui::GetStyle().FramePadding.x;
}

float width_of(const Panel& panel, const std::vector<Finding>& list, bool brief) {
  float width = 0;
  for (const Finding& one : list) width += button_width(brief ? one.brief : one.text) + panel.px(6);
  return width;
}

void draw_findings(Panel& panel, const std::vector<Finding>& list, float room) {
  const bool brief = width_of(panel, list, false) > room;
  for (const Finding& one : list) {
    const std::string& text = brief ? one.brief : one.text;
    const float width = button_width(text) + panel.px(6);
    if (width > room) break;
    room -= width;
    if (ImGui::Button(text.c_str())) panel.run(one.command);
    panel.services.items->add_text(one.item, views::last_item(), text);
    tooltip(panel, one.hint);
    ImGui::SameLine(0, panel.px(6));
  }
}

/// At the line's right end. Returns how much room it leaves.
float draw_own(Panel& panel, float room) {
  static constexpr const char* kLabel = "Run your own";
  const float width = button_width(kLabel);
  const ImVec2 at = ImGui::GetCursorPos();
  ImGui::SetCursorPos({at.x + room - width, at.y});
  {
    const views::ButtonStyle style(views::accent_button(panel.theme()));
    if (ImGui::Button(kLabel)) panel.run("prompt.focus");
  }
  panel.item("headline.own");
  tooltip(panel, "Type a prompt, then press Run");
  ImGui::SetCursorPos(at);
  return room - width - panel.px(12);
}

}  // namespace

void draw_headline(Panel& panel) {
  const RunEntry* a = panel.session.runs().a();
  if (a == nullptr) return;
  const views::FontScope font(panel.theme().fonts.small);
  ImGui::SetCursorPosY(panel.px(1));
  float room = ImGui::GetContentRegionAvail().x;
  if (!a->trace_path.empty() && a->trace_path == first_run_trace().string()) {
    room = draw_own(panel, room);
    ImGui::AlignTextToFramePadding();
    views::text_in(panel.theme().palette.accent, "Recorded run");
    panel.services.items->add_text("headline.recorded", views::last_item(), "Recorded run");
    tooltip(panel, "A run of " + a->run->model.name + " that comes with KVScope. To look at it, you need no engine.");
    room -= ImGui::GetItemRectSize().x + panel.px(12);
    ImGui::SameLine(0, panel.px(12));
  }
  const RunSummary* summary = panel.session.summaries().of(*a);
  if (summary != nullptr && summary->headline) {
    const std::vector<Finding> list = findings(*summary->headline, *a->run);
    return draw_findings(panel, list, draw_layout_bar(panel, room, width_of(panel, list, false)));
  }
  room = draw_layout_bar(panel, room, panel.px(kLeastText));
  const std::string text = views::cut_to(why_none(*a->run, summary), room);
  ImGui::AlignTextToFramePadding();
  views::text_in(panel.theme().palette.muted, text);
  panel.services.items->add_text("headline.none", views::last_item(), text);
}

}  // namespace kvscope::app
