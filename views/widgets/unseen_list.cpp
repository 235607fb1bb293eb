#include "views/widgets/unseen_list.h"

#include <array>
#include <string>

#include "views/figure/caption.h"
#include "views/figure/token_text.h"
#include "views/figure/unseen_tokens_figure.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

constexpr const char* kMissingHint =
    "The evicted tokens that this query would give most attention: the softmax under a full cache, mean over the query "
    "heads of a KV head and over the shown heads, counted in the heads that have evicted the token. Click one to select it.";

bool is_of_one_head(const UnseenAttention& unseen) { return unseen.scope.layer >= 0 && unseen.scope.kv_head >= 0; }

}  // namespace

void UnseenList::draw(ViewContext& context, const UnseenAttention& unseen, const std::vector<std::int32_t>& tokens,
                      ImVec2 room) {
  const float bottom = ImGui::GetCursorPosY() + room.y;
  draw_text(services_.theme->fonts.bold, services_.theme->palette.text, "Missing tokens");
  const ItemRect title = last_item();
  hint_of(services_, kMissingHint);
  const FontScope small(services_.theme->fonts.small);
  if (tokens.empty()) {
    const std::string note = "None: no evicted token would get attention.";
    ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + room.x);
    text_in(services_.theme->palette.muted, note);
    ImGui::PopTextWrapPos();
    return services_.items->add_text("unseen.missing", last_item(), note);
  }
  services_.items->add_text("unseen.missing", title, "Missing tokens");
  const float height = bottom - ImGui::GetCursorPosY();
  if (height < 2 * ImGui::GetTextLineHeightWithSpacing()) return;
  const std::array<const char*, 3> titles = {"token", "attention", is_of_one_head(unseen) ? "evicted at" : "heads"};
  const auto width = [](const char* text) { return ImGui::CalcTextSize(text).x; };
  const std::vector<float> widths =
      share_room({width("12345 \"abcdefgh\""), width("attention"), width("evicted at")},
                 room.x - 6 * ImGui::GetStyle().CellPadding.x - ImGui::GetStyle().ScrollbarSize);
  const ImGuiTableFlags flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingStretchProp;
  if (!ImGui::BeginTable("missing", static_cast<int>(titles.size()), flags, {room.x, height})) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (std::size_t i = 0; i < titles.size(); ++i)
    ImGui::TableSetupColumn(titles[i], ImGuiTableColumnFlags_WidthStretch, widths[i]);
  ImGui::TableHeadersRow();
  for (std::size_t i = 0; i < tokens.size(); ++i) draw_row(context, unseen, tokens[i], static_cast<int>(i));
  ImGui::EndTable();
}

void UnseenList::draw_row(ViewContext& context, const UnseenAttention& unseen, std::int32_t t, int row) {
  const RunRecord& run = *context.a->run;
  const auto i = static_cast<std::size_t>(t);
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  const std::string token =
      std::to_string(t) + (i < run.pieces.size() ? " \"" + token_label(run.pieces[i], 14) + "\"" : "");
  ImGui::PushID(row);
  const std::string shown = cut_to(token, ImGui::GetContentRegionAvail().x) + "###token";
  if (ImGui::Selectable(shown.c_str(), context.cursor_in(run).token == t, ImGuiSelectableFlags_SpanAllColumns))
    context.selection->token = t;
  const ItemRect rect = last_item();
  ImGui::PopID();
  const std::string place = is_of_one_head(unseen)
                                ? std::to_string(lifetime_of(run, unseen.scope.layer, unseen.scope.kv_head, t))
                                : std::to_string(unseen.heads_without[i]) + " of " + std::to_string(unseen.n_heads);
  std::string all = token;
  for (const std::string& text : {share_words(unseen.evicted[i]), place}) {
    ImGui::TableNextColumn();
    text_in(services_.theme->palette.text, text);
    all += " | " + text;
  }
  const float top = ImGui::GetWindowPos().y, bottom = top + ImGui::GetWindowHeight();
  if (rect.y >= top && rect.y + rect.h <= bottom + 1)
    services_.items->add_text("unseen.token." + std::to_string(row), rect, all);
}

}  // namespace kvscope::views
