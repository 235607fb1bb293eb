#include "views/widgets/miss_list.h"

#include <array>
#include <cfloat>
#include <string>

#include "views/figure/figure_builder.h"
#include "views/figure/token_text.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

constexpr const char* kMissHint =
    "The evictions that the oracle would not have made and that lost the most future mass: the mean attention that the "
    "token receives from each later query under a full cache. Click one to select its token and head.";

/// Why the list is empty.
const char* why_no_miss(const RunRecord& run) {
  if (run.status == RunStatus::running) return "Verdicts on the evictions appear when the run has ended.";
  if (run.future_mass.empty()) return "No oracle in this run, so its evictions have no verdicts.";
  return "No eviction of this run was judged wrong.";
}

}  // namespace

void MissList::draw(ViewContext& context, const std::vector<Eviction>* misses, ImVec2 room) {
  const float bottom = ImGui::GetCursorPosY() + room.y;
  draw_text(services_.theme->fonts.bold, services_.theme->palette.text, "Worst misses");
  const ItemRect title = last_item();
  hint_of(services_, kMissHint);
  const FontScope small(services_.theme->fonts.small);
  if (misses == nullptr || misses->empty()) {
    const std::string note = misses == nullptr ? "Judging the evictions ..." : why_no_miss(*context.a->run);
    ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + room.x);
    text_in(services_.theme->palette.muted, note);
    ImGui::PopTextWrapPos();
    return services_.items->add_text("lost.misses", last_item(), note);
  }
  services_.items->add_text("lost.misses", title, "Worst misses");
  const float height = bottom - ImGui::GetCursorPosY();
  if (height < 2 * ImGui::GetTextLineHeightWithSpacing()) return;
  constexpr std::array<const char*, 4> kTitles = {"token", "head", "query", "mass"};
  const auto width = [](const char* text) { return ImGui::CalcTextSize(text).x; };
  const std::vector<float> widths =
      share_room({width("1234 \"abcdefgh\""), width("L35 H7"), width("12345"), width("0.00123")},
                 room.x - 8 * ImGui::GetStyle().CellPadding.x - ImGui::GetStyle().ScrollbarSize);
  const ImGuiTableFlags flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingStretchProp;
  if (!ImGui::BeginTable("misses", static_cast<int>(kTitles.size()), flags, {room.x, height})) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (std::size_t i = 0; i < kTitles.size(); ++i)
    ImGui::TableSetupColumn(kTitles[i], ImGuiTableColumnFlags_WidthStretch, widths[i]);
  ImGui::TableHeadersRow();
  for (std::size_t i = 0; i < misses->size(); ++i) draw_row(context, (*misses)[i], static_cast<int>(i));
  ImGui::EndTable();
}

void MissList::draw_row(ViewContext& context, const Eviction& miss, int row) {
  const RunRecord& run = *context.a->run;
  Selection& selection = *context.selection;
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  const auto t = static_cast<std::size_t>(miss.t);
  const std::string token =
      std::to_string(miss.t) + (t < run.pieces.size() ? " \"" + token_label(run.pieces[t], 14) + "\"" : "");
  const Cursor at = context.cursor_in(run);
  const bool selected = at.token == miss.t && at.layer == miss.layer && at.kv_head == miss.kv_head;
  ImGui::PushID(row);
  const std::string shown = cut_to(token, ImGui::GetContentRegionAvail().x) + "###miss";
  if (ImGui::Selectable(shown.c_str(), selected, ImGuiSelectableFlags_SpanAllColumns)) {
    selection.token = miss.t, selection.layer = miss.layer, selection.kv_head = miss.kv_head;
    if (!selection.brush.contains(miss.t)) selection.brush = {};  // else the view would go on to show the other span
    scrub_to(selection, miss.q, run);
  }
  const ItemRect rect = last_item();
  ImGui::PopID();
  std::string all = token;
  for (const std::string& text : {"L" + std::to_string(miss.layer) + " H" + std::to_string(miss.kv_head),
                                  std::to_string(miss.q), format_number(miss.mass)}) {
    ImGui::TableNextColumn();
    text_in(services_.theme->palette.text, text);
    all += " | " + text;
  }
  const float top = ImGui::GetWindowPos().y, bottom = top + ImGui::GetWindowHeight();
  if (rect.y >= top && rect.y + rect.h <= bottom + 1)
    services_.items->add_text("lost.miss." + std::to_string(row), rect, all);
}

}  // namespace kvscope::views
