#include "views/comparison_view.h"

#include <algorithm>

#include "engine/core/support/minus.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {
namespace {

std::vector<ComparisonRow> differing(const std::vector<ComparisonRow>& rows) {
  std::vector<ComparisonRow> some;
  for (const ComparisonRow& row : rows) {
    if (row.differs()) some.push_back(row);
  }
  return some;
}

}  // namespace

void ComparisonView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.comparison", "Nothing to compare yet",
                "Run the model on a prompt: a second run, or the preview of another policy, stands beside it here.",
                "Run", "run.start");
    return;
  }
  const Palette& p = services_.theme->palette;
  const auto say = [&](const std::string& text) {
    wrapped_text_in(p.muted, text);
    services_.items->add_text("comparison.note", last_item(), text);
  };
  if (context.a->preview || (drawable(context.b) && context.b->preview)) preview_badge(services_);
  if (!drawable(context.b))
    return say("There is no B: change the policy for a preview, decode again, or press B beside a run.");
  const ModelInfo &a = context.a->run->model, &b = context.b->run->model;
  if (!same_shape(*context.a->run, *context.b->run) || a.vocab_size != b.vocab_size)
    return say("A and B are runs of different models: they cannot be compared head by head.");
  update(context);
  if (!table_) return say("Counting ...");
  say(table_->tokens + (context.b->preview ? "; B is a preview: nothing was decoded" : ""));
  ImGui::BeginChild("rows");
  {
    const FontScope small(services_.theme->fonts.small);
    draw_rows("result", table_->came_of);
    draw_rows("asked", differing(table_->asked));
    say_alike();
  }
  ImGui::EndChild();
}

void ComparisonView::update(const ViewContext& context) {
  const Key key{RunKey(context.a), RunKey(context.b), context.q()};
  auto table = aside_.of(key, [a = context.a->run, b = context.b->run, q = key.q, preview = context.b->preview] {
    return comparison_table(*a, *b, q, preview);
  });
  if (table) table_ = std::move(table);
}

/// What was asked of both alike, in a line.
void ComparisonView::say_alike() {
  std::string alike;
  for (const ComparisonRow& row : table_->asked) {
    if (!row.differs()) alike += (alike.empty() ? "Alike: " : ", ") + row.name + " " + row.a;
  }
  if (alike.empty()) return;
  wrapped_text_in(services_.theme->palette.muted, alike);
  services_.items->add_text("comparison.alike", last_item(), alike);
}

void ComparisonView::draw_rows(const char* heading, const std::vector<ComparisonRow>& rows) {
  if (rows.empty()) return;
  // The names are read first, the numbers share what is left. Widths of their own: columns sized by their contents would lay
  // a wrapping text out one letter a line.
  float name = ImGui::CalcTextSize(heading).x;
  for (const ComparisonRow& row : rows) name = std::max(name, ImGui::CalcTextSize(row.name.c_str()).x);
  const float room = ImGui::GetContentRegionAvail().x;
  ImGui::PushStyleVar(ImGuiStyleVar_CellPadding, {services_.theme->px(3), ImGui::GetStyle().CellPadding.y});
  const bool open = ImGui::BeginTable(heading, 4, ImGuiTableFlags_RowBg);
  ImGui::PopStyleVar();
  if (!open) return;
  ImGui::TableSetupColumn(heading, ImGuiTableColumnFlags_WidthFixed,
                          std::clamp(name + services_.theme->px(2), 0.31f * room, 0.37f * room));
  for (const char* name : {"A", "B", "B − A"}) ImGui::TableSetupColumn(name, ImGuiTableColumnFlags_WidthStretch, 3);
  ImGui::TableHeadersRow();
  for (const ComparisonRow& row : rows) draw_row(row);
  ImGui::EndTable();
}

/// What is alike is muted: the eye goes to what differs.
void ComparisonView::draw_row(const ComparisonRow& row) {
  const Palette& p = services_.theme->palette;
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  wrapped_text_in(p.muted, row.name);
  const ItemRect name = last_item();
  hint_of(services_, row.definition);
  for (const std::string* cell : {&row.a, &row.b}) {
    ImGui::TableNextColumn();
    const Colour colour = row.differs() ? p.text : p.muted;
    row.definition.empty() ? wrapped_text_in(colour, *cell) : text_in(colour, *cell);  // numbers stay in one piece
  }
  ImGui::TableNextColumn();
  const std::string difference = with_minus(row.difference);  // on a terminal a hyphen does
  text_in(row.differs() ? p.accent : p.muted, difference);
  services_.items->add_text("comparison." + row.name, name,
                            row.a + " | " + row.b + (difference.empty() ? "" : " | " + difference));
}

}  // namespace kvscope::views
