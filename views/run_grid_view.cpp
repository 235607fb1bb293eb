#include "views/run_grid_view.h"

#include <algorithm>
#include <array>

#include "views/run_chart.h"
#include "views/widgets/chrome.h"
#include "views/widgets/counted_maps.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

constexpr std::array kGridMeasures = {RunMeasure::nll_answer, RunMeasure::nll_text, RunMeasure::above_chance,
                                      RunMeasure::cache_size_end};

}  // namespace

RunGridView::Shown RunGridView::shown(const ViewContext& context) {
  Shown shown;
  const std::vector<int>& ticked = context.selection->runs;
  for (const ListedRun& listed : *context.listed->all) {
    if (!ticked.empty() && std::ranges::find(ticked, listed.id) == ticked.end()) continue;
    const bool fits = listed.run->status != RunStatus::running && why_not_in_grid(*listed.run, *context.a->run).empty();
    if (fits && shown.runs.size() < kMostGridRuns)
      shown.runs.push_back(&listed);
    else
      ++shown.left_out;
  }
  return shown;
}

RunGridOptions RunGridView::options_of(const ViewContext& context, const Shown& shown) const {
  const Selection& selection = *context.selection;
  RunGridOptions options{.cells = selection.run_grid.cells,
                         .metric = selection.metric,
                         .q = context.cursor_in(*context.a->run).q,
                         .measure = selection.run_grid.measure,
                         .colormap = services_.theme->maps,
                         .fit = selection.map.fit};
  for (const ListedRun* run : shown.runs) options.names.push_back("run " + std::to_string(run->id));
  return options;
}

std::optional<ViewFigure> RunGridView::figure(const ViewContext& context) const {
  if (!has_content(context)) return std::nullopt;
  const Shown runs = shown(context);
  if (runs.runs.empty()) return std::nullopt;
  std::vector<std::shared_ptr<const RunRecord>> records;
  for (const ListedRun* run : runs.runs) records.push_back(run->run);
  return ViewFigure{options_of(context, runs), std::move(records)};
}

bool RunGridView::has_content(const ViewContext& context) const {
  return drawable(context.a) && context.listed != nullptr;
}

void RunGridView::draw(ViewContext& context) {
  if (!has_content(context)) {
    empty_state(
        services_, context, "empty.run_grid", "No runs yet",
        "Run one prompt under several policies and budgets, or open traces of such runs, to see them beside each "
        "other.",
        "Run", "run.start");
    return;
  }
  const Shown runs = shown(context);
  draw_header(context, runs);
  const Theme& theme = *services_.theme;
  if (runs.runs.empty())
    return wrapped_text_in(theme.palette.muted,
                           "No ended run has A's prompt. Untick the runs, or run A's prompt again.");
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < theme.px(160) || room.y < theme.px(80)) return too_little_room(services_, "runs");
  build(context, runs, room);
  if (!waits_.empty()) return wrapped_text_in(theme.palette.muted, waits_);
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, theme);
  ImGui::InvisibleButton("run_grid", room);
  frame_focused_item();
  draw_cells(context, origin);
}

/// What the pictures are of, and what is written below them.
void RunGridView::draw_header(ViewContext& context, const Shown& runs) {
  constexpr std::array<std::string_view, 2> kCells = {"Heads", "Tokens"};
  constexpr std::array<std::string_view, 2> kHints = {
      "Layers x KV heads: the map's metric at the query",
      "Layers x tokens: how many KV heads keep each token at the query"};
  RunGridLook& look = context.selection->run_grid;
  int cells = static_cast<int>(look.cells);
  if (segmented(services_, "run_grid.cells", kCells, kHints, cells)) look.cells = static_cast<RunGridCells>(cells);
  const float gap = services_.theme->px(14);
  if (right_edge_on_screen() - ImGui::GetItemRectMax().x > services_.theme->px(330)) ImGui::SameLine(0, gap);
  std::vector<std::string_view> names, hints;
  int at = 0;
  for (std::size_t i = 0; i < kGridMeasures.size(); ++i) {
    names.push_back(info_of(kGridMeasures[i]).brief), hints.push_back(info_of(kGridMeasures[i]).definition);
    if (kGridMeasures[i] == look.measure) at = static_cast<int>(i);
  }
  if (segmented(services_, "run_grid.measure", names, hints, at))
    look.measure = kGridMeasures[static_cast<std::size_t>(at)];
  if (runs.left_out == 0) return;
  const std::string note = std::to_string(runs.left_out) + (runs.left_out == 1 ? " run is" : " runs are") +
                           " left out: another prompt or model, or not ended.";
  const FontScope small(services_.theme->fonts.small);
  wrapped_text_in(services_.theme->palette.muted, note);
  services_.items->add_text("run_grid.note", last_item(), note);
}

void RunGridView::build(const ViewContext& context, const Shown& runs, ImVec2 room) {
  const Theme& theme = *services_.theme;
  std::vector<RunMeasures> measures;
  std::vector<std::shared_ptr<const RunRecord>> records;
  std::vector<int> ids;
  Key key{{}, options_of(context, runs), room.x, room.y, theme.scale, theme.dark};
  for (const ListedRun* run : runs.runs) {
    const RunMeasures* known = context.listed->measures(run->id);
    if (known == nullptr) {
      waits_ = "Computing ...", rebuild_ = {};
      return;
    }
    measures.push_back(*known), records.push_back(run->run), ids.push_back(run->id);
    RunKey shown_run;
    shown_run.run = run->run, shown_run.revision = run->revision;
    key.runs.push_back(std::move(shown_run));
  }
  waits_.clear();
  // At once for other runs: a click must not meet a picture of another.
  if (!rebuild_.due(key, ids != drawn_ids_)) return;
  drawing_.set(run_grid_figure(pointers_to(records), measures, key.options, theme.figure_style(room.x, room.y)).figure);
  drawn_ = key.options, drawn_ids_ = std::move(ids), drawn_runs_ = std::move(records), measures_ = std::move(measures);
  rebuild_.done();
}

/// The selected head, or token, in every picture; a click selects it and shows the run as A.
void RunGridView::draw_cells(ViewContext& context, ImVec2 origin) {
  const Theme& theme = *services_.theme;
  const bool hovered = ImGui::IsItemHovered(), clicked = ImGui::IsItemClicked();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const Point at{mouse.x - origin.x, mouse.y - origin.y};
  Selection& selection = *context.selection;
  const auto outline = [&](const Box& box, Colour colour, float width) {
    ImGui::GetWindowDrawList()->AddRect(
        {origin.x + static_cast<float>(box.x), origin.y + static_cast<float>(box.y)},
        {origin.x + static_cast<float>(box.right()), origin.y + static_cast<float>(box.bottom())}, to_imgui(colour), 0,
        theme.px(width));
  };
  for (std::size_t i = 0; i < drawn_ids_.size(); ++i) {
    const Panel& panel = *drawing_.figure().panel("run." + std::to_string(i));
    const Box& box = panel.box;
    services_.items->add(
        "run_grid.run", drawn_ids_[i],
        item_rect({origin.x + static_cast<float>(box.x), origin.y + static_cast<float>(box.y)},
                  {origin.x + static_cast<float>(box.right()), origin.y + static_cast<float>(box.bottom())}));
    if (drawn_ids_[i] == context.listed->a) outline(box, theme.palette.accent, 2);
    if (drawn_ids_[i] == context.listed->b) outline(box, theme.palette.muted, 2);
    if (drawn_.cells == RunGridCells::heads && selection.layer < panel.rows && selection.kv_head < panel.columns)
      outline(panel.cell(selection.layer, selection.kv_head), theme.palette.accent, 1);
    const auto cell = panel.cell_at(at);
    if (!cell) continue;
    if (clicked) {
      selection.layer = cell->first;
      if (drawn_.cells == RunGridCells::heads) selection.kv_head = cell->second;
      context.listed->show(drawn_ids_[i], drawn_ids_[i] == context.listed->b ? 0 : context.listed->b);
      return;  // the list may be another now
    }
    if (hovered) draw_card(i, cell->first, cell->second);
  }
}

/// The run, and this cell in all of them.
void RunGridView::draw_card(std::size_t run, int row, int column) const {
  const Palette& p = services_.theme->palette;
  const HoverCard card(services_);
  std::string text = drawn_.names[run] + ": " + drawn_runs_[run]->policy.brief();
  draw_text(services_.theme->fonts.bold, p.text, text);
  const auto line = [&](const std::string& words, bool is_this) {
    text_in(is_this ? p.text : p.muted, words);
    text += "\n" + words;
  };
  for (const RunMeasure measure : {RunMeasure::cache_size, drawn_.measure})
    line(label_of(measure) + " " + number_of(measure, measures_[run][measure]), true);
  if (drawn_.cells == RunGridCells::heads) {
    line("L" + std::to_string(row) + " H" + std::to_string(column) + ", " +
             std::string(metric_info(drawn_.metric).title) + ":",
         true);
    for (std::size_t i = 0; i < drawn_runs_.size(); ++i) {
      const RunRecord& other = *drawn_runs_[i];
      const HeadMap map = head_metric(other, drawn_.metric, std::min(drawn_.q, other.n_tokens() - 1));
      line(drawn_.names[i] + " " + number_of(RunMeasure::above_chance, map.at(row, column)) + ", " +
               other.policy.brief(),
           i == run);
    }
  }
  services_.items->add_text("run_grid.hover", item_rect(ImGui::GetIO().MousePos, ImGui::GetIO().MousePos), text);
}

}  // namespace kvscope::views
