#include "views/widgets/study_point_panel.h"

#include <algorithm>

#include "engine/core/support/text.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {

void StudyPointPanel::say(const char* item, Colour colour, const std::string& text) {
  wrapped_text_in(colour, text);
  services_.items->add_text(item, last_item(), text);
}

void StudyPointPanel::draw(ViewContext& context) {
  const StudyTable& study = *context.study()->table;
  StudyLook& look = context.selection->study;
  const Palette& p = services_.theme->palette;
  const auto step = [&](const char* item, const char* label, const char* hint, const char* command, bool first) {
    if (line_button(services_, item, label, hint, false, first) && context.command) context.command(command);
  };
  step("study.previous", "Previous point", "Go to the previous point on this line (Alt+Left)", "study.previous", true);
  step("study.next", "Next point", "Go to the next point on this line (Alt+Right)", "study.next", false);
  const bool training = study.kind == kTrainingStudy,
             selected = look.point >= 0 && look.point < static_cast<int>(study.n_points());
  if (!selected && training) return draw_newest(study, look);
  if (!selected) return say("study.no_point", p.muted, "Click a point to see its measurements.");
  draw_text(services_.theme->fonts.bold, p.text,
            "Point " + std::to_string(look.point + 1) + " of " + std::to_string(study.n_points()));
  say("study.name", p.text, point_name(study, look.point));
  if (!training) draw_run(context);
  draw_values(study, look.point);
}

void StudyPointPanel::draw_newest(const StudyTable& study, const StudyLook& look) {
  const Palette& p = services_.theme->palette;
  say("study.no_point", p.muted, "Click a step to see what was logged. The latest of each curve:");
  const StudyColumn* source = study.column("source");
  const auto name = [&](int row) { return source == nullptr ? "" : source->texts[static_cast<std::size_t>(row)]; };
  const std::string y = study_axes(study, look).y;
  for (int row = 0, n = static_cast<int>(study.n_points()); row < n; ++row) {
    if (row + 1 < n && name(row + 1) == name(row)) continue;
    std::string text = name(row) + (source == nullptr ? "" : ": ");
    text += "step " + value_with_unit(*study.column("step"), row);
    for (const std::string& known : {y, std::string("tokens_per_s"), std::string("seconds")}) {
      const StudyColumn& column = *study.column(known);
      const std::string value = number_text(column.numbers[static_cast<std::size_t>(row)], 4);
      text += ", " + (column.units.empty() ? known + " " + value : value + " " + column.units);
    }
    say(("study.newest." + std::to_string(row)).c_str(), p.text, text);
  }
}

void StudyPointPanel::draw_piece(StudyLook& look, const StudyTable& study, int n_pieces) {
  look.piece = std::clamp(look.piece, 0, n_pieces - 1);
  const auto step = [&](const char* item, const char* label, int by, bool first) {
    const int to = look.piece + by;
    if (line_button(services_, item, label, "Go to another piece of the text", false, first) && to >= 0 &&
        to < n_pieces)
      look.piece = to;
  };
  step("study.piece_previous", "<", -1, true);
  step("study.piece_next", ">", 1, false);
  ImGui::SameLine(0, services_.theme->px(8));
  std::string text = "piece " + std::to_string(look.piece + 1) + " of " + std::to_string(n_pieces);
  const StudyArray* nll = study.array("piece_nll");
  const bool has_nll = nll != nullptr && nll->shape.size() == 2 && look.piece < nll->shape[1];
  if (has_nll)
    text += ", NLL " + fixed_text(nll->values[static_cast<std::size_t>(look.point * nll->shape[1] + look.piece)], 4);
  text_in(services_.theme->palette.text, text);
  services_.items->add_text("study.piece", last_item(), text);
}

void StudyPointPanel::draw_run(ViewContext& context) {
  const PointRun& run = context.studies->run;
  StudyLook& look = context.selection->study;
  const Palette& p = services_.theme->palette;
  if (run.n_pieces > 0) draw_piece(look, *context.study()->table, run.n_pieces);
  ImGui::BeginDisabled(!run.why_not.empty());
  if (ImGui::Button("Open its run") && context.command) context.command("study.open_point");
  services_.items->add_text("study.open_point", last_item(), run.why_not.empty() ? "on" : "off");
  ImGui::EndDisabled();
  if (!run.why_not.empty()) {
    say("study.why_not", p.warn, run.why_not);
    if (!run.remedy.empty()) {
      if (ImGui::Button(run.label.c_str()) && context.command) context.command(run.remedy);
      services_.items->add_text("study.remedy", last_item(), run.label);
    }
  }
  std::string from;
  for (const std::string& line : run.from) from += (from.empty() ? "" : " ") + line;
  if (!from.empty()) say("study.from", p.muted, from);
  for (const std::string& note : run.notes) say("study.note", p.warn, note);
}

void StudyPointPanel::draw_values(const StudyTable& study, int row) {
  if (!ImGui::BeginTable("values", 2, ImGuiTableFlags_RowBg)) return;
  ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthStretch, 2);
  ImGui::TableSetupColumn("value", ImGuiTableColumnFlags_WidthStretch, 3);
  for (const StudyColumn& column : study.columns) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    text_in(services_.theme->palette.muted, column.name);
    hint_of(services_, column.meaning);
    ImGui::TableNextColumn();
    const std::string value = value_with_unit(column, row);
    wrapped_text_in(services_.theme->palette.text, value);
    services_.items->add_text("study.value." + column.name, last_item(), value);
  }
  ImGui::EndTable();
}

}  // namespace kvscope::views
