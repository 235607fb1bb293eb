#include "views/run_table_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

constexpr float kLeastName = 120, kMostName = 360, kChartBeside = 1250, kTableShare = 0.62f;
constexpr float kLeastChart = 190, kLeastTable = 96;
constexpr float kPill = 22, kNoteWidth = 350;

/// What is missing comes last, whichever way the others go.
bool comes_before(double a, double b, bool descending) {
  if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  return descending ? a > b : a < b;
}

/// A click: lowest first, highest first, as they came.
void sort_by(RunTableLook& look, std::string_view column) {
  if (look.sort != column) {
    look.sort = column, look.descending = false;
  } else if (!std::exchange(look.descending, true)) {
    return;
  } else {
    look.sort.clear(), look.descending = false;
  }
}

float text_room(const std::string& text) { return std::ceil(ImGui::CalcTextSize(text.c_str()).x) + 1; }

}  // namespace

bool RunTableView::has_content(const ViewContext& context) const {
  // A run that waits for its first answer is none yet: the window then shows its prompt instead of views.
  return context.listed != nullptr &&
         std::ranges::any_of(*context.listed->all, [](const ListedRun& one) { return one.run->n_tokens() > 0; });
}

void RunTableView::draw(ViewContext& context) {
  if (!has_content(context)) {
    empty_state(services_, context, "empty.run_table", "No runs yet",
                "Run a prompt or open a trace. Each run becomes a row here, and ticked rows become a chart.", "Run",
                "run.start");
    return;
  }
  const Theme& theme = *services_.theme;
  const std::vector<RunRow> rows = rows_of(context, true);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const float gap = theme.px(8);
  if (room.x >= theme.px(kChartBeside)) {
    const float width = std::floor(room.x * kTableShare);
    draw_table(context, rows, {width, room.y});
    ImGui::SameLine(0, gap);
    return chart_.draw(context, rows, {room.x - width - gap, room.y});
  }
  if (room.y < theme.px(kLeastTable + kLeastChart) + gap) {
    const float note = ImGui::GetTextLineHeightWithSpacing() * (room.x < theme.px(kNoteWidth) ? 2 : 1);
    draw_table(context, rows, {room.x, std::max(1.f, room.y - note)});
    const FontScope small(theme.fonts.small);
    return too_little_room(services_, "chart");
  }
  const float line = ImGui::GetFrameHeight() + ImGui::GetStyle().CellPadding.y * 2;
  const float needed = line * static_cast<float>(rows.size() + 1) + ImGui::GetStyle().ScrollbarSize;
  const float most = std::max(theme.px(kLeastTable), std::min(room.y / 2, room.y - gap - theme.px(kLeastChart)));
  const float height = std::floor(std::min(needed, most));
  draw_table(context, rows, {room.x, height});
  chart_.draw(context, rows, {room.x, room.y - height - gap});
}

std::vector<RunRow> RunTableView::rows_of(const ViewContext& context, bool with_measures) const {
  const ListedRuns& listed = *context.listed;
  const RunTableLook& look = context.selection->run_table;
  const std::vector<int>& ticked = context.selection->runs;
  std::vector<RunRow> rows;
  for (const ListedRun& run : *listed.all)
    rows.push_back({&run, with_measures ? listed.measures(run.id) : nullptr, std::ranges::count(ticked, run.id) > 0});
  if (look.sort == "run") {
    std::ranges::stable_sort(rows, {}, [](const RunRow& row) -> const std::string& { return row.run->title; });
    if (look.descending) std::ranges::reverse(rows);
    return rows;
  }
  const auto by = std::ranges::find(run_measures(), look.sort, &RunMeasureInfo::name);
  if (by == run_measures().end()) return rows;
  const auto value = [&](const RunRow& row) { return row.measures != nullptr ? (*row.measures)[by->measure] : NAN; };
  std::ranges::stable_sort(
      rows, [&](const RunRow& a, const RunRow& b) { return comes_before(value(a), value(b), look.descending); });
  return rows;
}

// ---------------------------------------------------------------------------------------------- table

void RunTableView::draw_table(ViewContext& context, const std::vector<RunRow>& rows, ImVec2 size) {
  const FontScope small(services_.theme->fonts.small);
  const Theme& theme = *services_.theme;
  const float padding = ImGui::GetStyle().CellPadding.x * 2;
  std::vector<float> widths = {ImGui::GetFrameHeight() + 2 * theme.px(kPill + 3) + 1, 0};
  float sum = widths[0] + 2 * padding;
  for (const RunMeasureInfo& info : run_measures()) {
    float width = text_room(std::string(info.brief)) + theme.px(12);  // the arrow of the order
    for (const RunRow& row : rows) {
      if (row.measures != nullptr)
        width = std::max(width, text_room(number_of(info.measure, (*row.measures)[info.measure])));
    }
    widths.push_back(width), sum += width + padding;
  }
  const float left = size.x - sum - ImGui::GetStyle().ScrollbarSize - theme.px(2);
  widths[1] = std::clamp(left, theme.px(kLeastName), theme.px(kMostName));
  constexpr ImGuiTableFlags kFlags =
      ImGuiTableFlags_RowBg | ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY | ImGuiTableFlags_SizingFixedFit;
  if (!ImGui::BeginTable("run_table", static_cast<int>(widths.size()), kFlags, size)) return;
  for (std::size_t i = 0; i < widths.size(); ++i)
    ImGui::TableSetupColumn(("##" + std::to_string(i)).c_str(), ImGuiTableColumnFlags_WidthFixed, widths[i]);
  ImGui::TableSetupScrollFreeze(size.x > sum ? 2 : 1, 1);
  draw_headers(context);
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(rows.size()));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
      draw_row(context, rows[static_cast<std::size_t>(i)]);
  }
  ImGui::EndTable();
}

void RunTableView::draw_headers(ViewContext& context) {
  RunTableLook& look = context.selection->run_table;
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  const auto header = [&](std::string_view column, std::string_view title, const std::string& hint) {
    ImGui::TableNextColumn();
    ImGui::TableHeader((std::string(title) + "##" + std::string(column)).c_str());
    if (ImGui::IsItemActivated()) sort_by(look, column);
    const ItemRect item = last_item();
    const bool sorted = look.sort == column;
    services_.items->add_text("run_table.header." + std::string(column), item,
                              sorted ? (look.descending ? "descending" : "ascending") : "");
    hint_of(services_, hint + " Click to sort.");
    if (!sorted) return;
    const float x = item.x + text_room(std::string(title)) + services_.theme->px(5), y = item.centre_y(),
                r = services_.theme->px(3.5f), up = look.descending ? -r : r;
    ImGui::GetWindowDrawList()->AddTriangleFilled({x, y + up * 0.6f}, {x + 2 * r, y + up * 0.6f}, {x + r, y - up},
                                                  to_imgui(services_.theme->palette.accent));
  };
  ImGui::TableNextColumn();
  const auto n = std::ranges::count_if(*context.listed->all, [&](const ListedRun& run) {
    return std::ranges::count(context.selection->runs, run.id) > 0;
  });
  const std::string ticked = n == 0 ? "" : std::to_string(n) + " of " + std::to_string(context.listed->all->size());
  text_in(services_.theme->palette.muted, ticked);
  services_.items->add_text("run_table.ticked", last_item(), ticked);
  header("run", "run", "Number in the list, policy, and what else tells the run apart.");
  for (const RunMeasureInfo& info : run_measures()) {
    std::string hint = label_of(info.measure) + ": " + std::string(info.definition) + ".";
    header(info.name, info.brief, hint);
  }
}

void RunTableView::draw_row(ViewContext& context, const RunRow& row) {
  ImGui::PushID(row.run->id);
  ImGui::TableNextRow();
  ImGui::TableSetColumnIndex(1);
  draw_name(context, row);  // first: what lies over it takes the mouse
  ImGui::TableSetColumnIndex(0);
  draw_marks(context, row);
  ImGui::TableSetColumnIndex(1);
  for (const RunMeasureInfo& info : run_measures()) {
    ImGui::TableNextColumn();
    draw_number(row, info.measure);
  }
  ImGui::PopID();
}

void RunTableView::draw_name(ViewContext& context, const RunRow& row) {
  const ListedRuns& listed = *context.listed;
  const int id = row.run->id;
  const std::string name = name_of(*row.run);
  const float room = ImGui::GetContentRegionAvail().x, left = ImGui::GetCursorScreenPos().x;
  ImGui::AlignTextToFramePadding();
  const std::string shown = cut_middle_to(name, room);
  constexpr ImGuiSelectableFlags kFlags = ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowOverlap;
  const bool pressed =
      ImGui::Selectable((shown + "##name").c_str(), id == listed.a, kFlags, {0, ImGui::GetFrameHeight()});
  services_.items->add_text("run_table.row." + std::to_string(id), last_item(), name);
  if (pressed && ImGui::GetIO().KeyCtrl && listed.choose) return listed.choose(id);
  if (pressed && listed.show) listed.show(id, id == listed.b ? 0 : listed.b);
  const RunRecord& run = *row.run->run;
  const float mouse = ImGui::GetIO().MousePos.x;
  if (mouse < left || mouse > left + room) return;  // numbers and letters have hints as well
  hint_of(services_, name + "\n" + run.policy.brief() + (row.run->hint.empty() ? "" : "\n" + row.run->hint) +
                         (run.message.empty() ? "" : "\n" + run.message));
}

/// The box that ticks it, and the letters of A and B.
void RunTableView::draw_marks(ViewContext& context, const RunRow& row) {
  const ListedRuns& listed = *context.listed;
  const int id = row.run->id;
  bool ticked = row.ticked;
  if (ImGui::Checkbox("##tick", &ticked) && listed.choose) listed.choose(id);
  services_.items->add_text("run_table.tick." + std::to_string(id), last_item(), row.ticked ? "on" : "off");
  hint_of(services_, "Choose this run: chart, map and By layer show the chosen runs");
  const auto pill = [&](const char* letter, bool on, const char* hint, int a, int b) {
    ImGui::SameLine(0, services_.theme->px(3));
    bool pressed = false;
    {
      const ButtonStyle style(on ? accent_button(*services_.theme) : plain_button(*services_.theme));
      ImGui::BeginDisabled(letter[0] == 'B' && id == listed.a);
      pressed = ImGui::Button(letter, {services_.theme->px(kPill), 0});
      ImGui::EndDisabled();
    }
    services_.items->add_text(std::string("run_table.") + (letter[0] == 'A' ? "a." : "b.") + std::to_string(id),
                              last_item(), on ? "on" : "off");
    hint_of(services_, hint);
    if (pressed && listed.show) listed.show(a, b);
  };
  const bool is_a = id == listed.a, is_b = id == listed.b;
  pill("A", is_a, is_a ? "This is A" : "Show this run as A", id, is_b ? 0 : listed.b);
  pill("B", is_b,
       is_a   ? "This is A. X swaps A and B."
       : is_b ? "This is B. Click to clear."
              : "Show this run as B",
       listed.a, is_b ? 0 : id);
}

void RunTableView::draw_number(const RunRow& row, RunMeasure measure) {
  const Palette& p = services_.theme->palette;
  const RunRecord& run = *row.run->run;
  const double value = row.measures != nullptr ? (*row.measures)[measure] : NAN;
  const bool computing = row.is_awaited();
  const std::string text = computing ? "..." : number_of(measure, value);
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.f, ImGui::GetContentRegionAvail().x - text_room(text)));
  ImGui::AlignTextToFramePadding();
  text_in(std::isnan(value) ? p.muted : p.text, text);
  services_.items->add_text("run_table.cell." + std::to_string(row.run->id) + "." + std::string(info_of(measure).name),
                            last_item(), text);
  if (std::isnan(value)) hint_of(services_, computing ? "Computing ..." : why_not_measured(run, measure));
}

// ---------------------------------------------------------------------------------------------- chart

std::optional<ViewFigure> RunTableView::figure(const ViewContext& context) const {
  if (!has_content(context)) return std::nullopt;
  RunPointsOptions options{.x = context.selection->run_table.x, .y = context.selection->run_table.y};
  ViewFigure figure;
  bool any_ticked = false;
  // Counting is asked for where the order needs it alone: this is asked of views that are not open, too.
  for (const RunRow& row : rows_of(context, !context.selection->run_table.sort.empty())) {
    any_ticked = any_ticked || row.ticked;
    const RunRecord& run = *row.run->run;
    if (run.n_tokens() == 0 || run.status == RunStatus::running) continue;
    if (row.ticked) options.drawn.push_back(static_cast<int>(figure.runs.size()));
    figure.runs.push_back(row.run->run);
    options.names.push_back(name_of(*row.run));
  }
  if (figure.runs.empty() || (any_ticked && options.drawn.empty())) return std::nullopt;
  figure.options = std::move(options);
  return figure;
}

}  // namespace kvscope::views
