#include "views/comparison_view.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <sstream>

#include "engine/core/support/minus.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

std::vector<ComparisonRow> differing(const std::vector<ComparisonRow>& rows) {
  std::vector<ComparisonRow> some;
  for (const ComparisonRow& row : rows) {
    if (row.differs()) some.push_back(row);
  }
  return some;
}

/// What the columns need: numbers stay in one piece, words are wrapped.
std::vector<float> needs_of(const std::array<const char*, 4>& titles, const std::vector<ComparisonRow>& rows,
                            bool brief) {
  const auto width = [](const std::string& text) { return ImGui::CalcTextSize(text.c_str()).x; };
  const auto widest_word = [&](const std::string& text) {
    float widest = 0;
    std::istringstream words(text);
    for (std::string word; words >> word;) widest = std::max(widest, width(word));
    return widest;
  };
  std::vector<float> needs;
  for (const char* title : titles) needs.push_back(width(title));
  const auto need = [&](std::size_t column, float least) { needs[column] = std::max(needs[column], least); };
  for (const ComparisonRow& row : rows) {
    const bool number = !row.definition.empty();
    need(0, brief ? widest_word(row.name) : width(row.name));
    need(1, number ? width(row.a) : widest_word(row.a));
    need(2, number ? width(row.b) : widest_word(row.b));
    need(3, width(with_minus(row.difference)));
  }
  return needs;
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
  const std::array<const char*, 4> titles = {heading, "A", "B", "B − A"};
  const float padding = services_.theme->px(3), room = ImGui::GetContentRegionAvail().x;
  // Widths of their own: columns sized by their contents would lay a wrapping text out one letter a line. What can be
  // reckoned from the others goes first.
  const bool brief = room < services_.theme->px(180);
  const std::size_t n = brief ? 3 : 4;
  const float free = room - 2 * static_cast<float>(n) * padding;
  std::vector<float> widths = needs_of(titles, rows, brief);
  // A name can be wrapped, a number cannot.
  if (std::accumulate(widths.begin(), widths.end(), 0.f) > free) widths = needs_of(titles, rows, true);
  widths.resize(n);
  if (brief) {
    const std::vector<float> numbers = share_room({widths[1], widths[2]}, std::max(1.f, free - widths[0]));
    widths = {widths[0], numbers[0], numbers[1]};
  } else {
    widths = share_room(widths, free);
  }
  ImGui::PushStyleVar(ImGuiStyleVar_CellPadding, {padding, ImGui::GetStyle().CellPadding.y});
  const bool open = ImGui::BeginTable(heading, static_cast<int>(n), ImGuiTableFlags_RowBg);
  ImGui::PopStyleVar();
  if (!open) return;
  for (std::size_t i = 0; i < n; ++i) ImGui::TableSetupColumn(titles[i], ImGuiTableColumnFlags_WidthStretch, widths[i]);
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
    row.definition.empty() ? wrapped_text_in(colour, *cell) : cut_text_in(services_, colour, *cell);
  }
  const std::string difference = with_minus(row.difference);  // on a terminal a hyphen does
  if (ImGui::TableGetColumnCount() == 4) {
    ImGui::TableNextColumn();
    cut_text_in(services_, row.differs() ? p.accent : p.muted, difference);
  }
  services_.items->add_text("comparison." + row.name, name,
                            row.a + " | " + row.b + (difference.empty() ? "" : " | " + difference));
}

}  // namespace kvscope::views
