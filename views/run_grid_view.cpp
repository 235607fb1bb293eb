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

const RunGridView::Shown& RunGridView::shown_now(const ViewContext& context) {
  const std::vector<int>& ticked = context.selection->runs;
  const RunKey a(context.a);
  if (shown_of_ == context.listed->all && shown_for_ == a && shown_ticked_ == ticked) return shown_;
  shown_of_ = context.listed->all, shown_for_ = a, shown_ticked_ = ticked;
  return shown_ = shown(context);
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
  const Shown& runs = shown_now(context);
  draw_header(context, runs);
  const Theme& theme = *services_.theme;
  if (runs.runs.empty())
    return wrapped_text_in(theme.palette.muted,
                           "No ended run has A's prompt. Untick the runs, or run A's prompt again.");
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < theme.px(160) || room.y < theme.px(80)) return too_little_room(services_, "runs");
  if (!count(context, runs, room.x)) return wrapped_text_in(theme.palette.muted, "Computing ...");
  build(options_of(context, runs), room);
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
  choose_measure(services_, "run_grid.measure", kGridMeasures, look.measure, 2);
  if (runs.left_out == 0) return;
  const std::string note = std::to_string(runs.left_out) + (runs.left_out == 1 ? " run is" : " runs are") +
                           " left out: another prompt or model, or not ended.";
  const FontScope small(services_.theme->fonts.small);
  wrapped_text_in(services_.theme->palette.muted, note);
  services_.items->add_text("run_grid.note", last_item(), note);
}

bool RunGridView::count(const ViewContext& context, const Shown& runs, float width) {
  if (auto counted = background_.take()) take(std::move(*counted));
  const RunGridOptions options = options_of(context, runs);
  CountKey key{{}, {}, options.cells, options.metric, options.q, options.cells == RunGridCells::tokens ? width : 0};
  Runs records;
  std::vector<RunMeasures> measures;
  for (const ListedRun* run : runs.runs) {
    const RunMeasures* known = context.listed->measures(run->id);
    if (known == nullptr) return false;
    RunKey of_run;
    of_run.run = run->run, of_run.revision = run->revision;
    key.ids.push_back(run->id), key.runs.push_back(std::move(of_run));
    records.push_back(run->run), measures.push_back(*known);
  }
  const bool are_these = counted_.ids == key.ids;
  // At once for other runs: a click must not meet a picture of another.
  if (background_.is_busy() || !recount_.due(key, !are_these)) return are_these;
  const bool at_once = is_counted_at_once(records, options.metric);
  auto make = [ids = key.ids, records, measures, options, width]() -> Counted {
    auto pictures = grid_pictures(pointers_to(records), measures, options, width);
    return {ids, records, measures, options, std::move(pictures)};
  };
  if (at_once)
    take(make());
  else
    background_.post(std::move(make));
  return counted_.ids == key.ids;
}

void RunGridView::take(Counted counted) {
  counted_ = std::move(counted);
  ++n_counted_;
  recount_.done();
}

/// The look of now on what was counted last.
void RunGridView::build(const RunGridOptions& now, ImVec2 room) {
  RunGridOptions options = now;
  options.cells = counted_.options.cells, options.metric = counted_.options.metric, options.q = counted_.options.q;
  const Theme& theme = *services_.theme;
  if (!rebuild_.due({n_counted_, options, room.x, room.y, theme.scale, theme.dark}, drawn_count_ != n_counted_)) return;
  drawing_.set(run_grid_figure(pointers_to(counted_.runs), counted_.measures, counted_.pictures, options,
                               theme.figure_style(room.x, room.y))
                   .figure);
  drawn_ = std::move(options), drawn_count_ = n_counted_;
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
  for (std::size_t i = 0; i < counted_.ids.size(); ++i) {
    const Panel& panel = *drawing_.figure().panel("run." + std::to_string(i));
    const Box& box = panel.box;
    services_.items->add(
        "run_grid.run", counted_.ids[i],
        item_rect({origin.x + static_cast<float>(box.x), origin.y + static_cast<float>(box.y)},
                  {origin.x + static_cast<float>(box.right()), origin.y + static_cast<float>(box.bottom())}));
    if (counted_.ids[i] == context.listed->a) outline(box, theme.palette.accent, 2);
    if (counted_.ids[i] == context.listed->b) outline(box, theme.palette.muted, 2);
    if (drawn_.cells == RunGridCells::heads && selection.layer < panel.rows && selection.kv_head < panel.columns)
      outline(panel.cell(selection.layer, selection.kv_head), theme.palette.accent, 1);
    const auto cell = panel.cell_at(at);
    if (!cell) continue;
    if (clicked) {
      selection.layer = cell->first;
      if (drawn_.cells == RunGridCells::heads) selection.kv_head = cell->second;
      context.listed->show(counted_.ids[i], counted_.ids[i] == context.listed->b ? 0 : context.listed->b);
      return;  // the list may be another now
    }
    if (hovered) draw_card(i, cell->first, cell->second);
  }
}

/// The run, and this cell in all of them.
void RunGridView::draw_card(std::size_t run, int row, int column) const {
  const Palette& p = services_.theme->palette;
  const HoverCard card(services_);
  std::string text = drawn_.names[run] + ": " + counted_.runs[run]->policy.brief();
  draw_text(services_.theme->fonts.bold, p.text, text);
  const auto line = [&](const std::string& words, bool is_this) {
    text_in(is_this ? p.text : p.muted, words);
    text += "\n" + words;
  };
  for (const RunMeasure measure : {RunMeasure::cache_size, drawn_.measure})
    line(label_of(measure) + " " + number_of(measure, counted_.measures[run][measure]), true);
  if (drawn_.cells == RunGridCells::heads) {
    line("L" + std::to_string(row) + " H" + std::to_string(column) + ", " +
             std::string(metric_info(drawn_.metric).title) + ":",
         true);
    for (std::size_t i = 0; i < counted_.runs.size(); ++i) {
      const GridPicture& picture = counted_.pictures[i];
      const float value = picture.values[static_cast<std::size_t>(row * picture.columns + column)];
      line(drawn_.names[i] + " " + number_of(RunMeasure::above_chance, value) + ", " + counted_.runs[i]->policy.brief(),
           i == run);
    }
  }
  services_.items->add_text("run_grid.hover", item_rect(ImGui::GetIO().MousePos, ImGui::GetIO().MousePos), text);
}

}  // namespace kvscope::views
