#include "views/run_curves_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/measure_button.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

/// Values looked at in a frame, some 10 ms; more are for another thread.
constexpr std::int64_t kCheap = 4'000'000;

}  // namespace

void RunCurvesView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.run_curves", "No run yet",
                "Run a prompt or open a trace to see its likelihood, cache and recall position by position.", "Run",
                "run.start");
    return;
  }
  draw_header(context);
  if (const std::string why = refusal(context); !why.empty()) {
    const bool unmeasured = options_of(context).quantity == RunQuantity::output_error && !context.a->preview;
    if (unmeasured) draw_measure_button(services_, context, Metric::output_error, false);
    if (!unmeasured) wrapped_text_in(services_.theme->palette.muted, why);
    services_.items->add_text("curves.refusal", last_item(), why);
    if (context.a->preview) services_.items->add("preview.badge", last_item());
    return;
  }
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < services_.theme->px(90) || room.y < services_.theme->px(70)) return too_little_room(services_, "curves");
  const CurvesOptions options = options_of(context);
  const bool with_b = options.compare != MapCompare::none;
  if (!build(context, {RunKey(context.a), RunKey(with_b ? context.b : nullptr), options, room.x, room.y,
                       services_.theme->scale, services_.theme->dark})) {
    text_in(services_.theme->palette.muted, "Computing ...");
    return;
  }
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  ImGui::InvisibleButton("curves", room);
  handle_mouse(context, origin);
  if (options.preview || options.preview_b)
    services_.items->add("preview.badge", item_rect(origin, {origin.x + room.x, origin.y + room.y}));
}

void RunCurvesView::draw_header(ViewContext& context) {
  std::vector<std::string_view> names, hints;
  for (const RunQuantityInfo& info : run_quantities()) names.push_back(info.title), hints.push_back(info.definition);
  segmented(services_, "curves.quantity", names, hints, quantity_);
  if (!drawable(context.b)) return draw_mark(context);
  constexpr std::array<std::string_view, 3> kNames = {"A", "A | B", "B − A"};
  segmented(services_, "curves.compare", kNames, {}, compare_);
  draw_mark(context);
  const std::string why = why_no_curve_of_b(context);
  if (why.empty() || compare_ == 0) return;
  const FontScope small(services_.theme->fonts.small);
  wrapped_text_in(services_.theme->palette.warn, "No curve for B: " + why);
  services_.items->add_text("curves.no_b", last_item(), why);
}

/// After the buttons where there is room, else below them and cut at the edge: how many positions each point of the line
/// averages. Nothing where it is one.
void RunCurvesView::draw_mark(const ViewContext& context) {
  if (!refusal(context).empty()) return;
  const CurvesOptions options = options_of(context);
  const std::string positions = positions_of_a_point(n_shown(context, options), options.points);
  if (positions.empty()) return;
  const std::string text = "mean of " + positions + " per point";
  const FontScope small(services_.theme->fonts.small);
  const float gap = services_.theme->px(10), right = right_edge_on_screen();
  if (ImGui::GetItemRectMax().x + gap + ImGui::CalcTextSize(text.c_str()).x <= right) {
    ImGui::SameLine(0, gap);
    ImGui::AlignTextToFramePadding();
  }
  text_in(services_.theme->palette.muted, cut_to(text, right - ImGui::GetCursorScreenPos().x));
  services_.items->add_text("curves.mean_of", last_item(), text);
  const std::string band = info_of(options.quantity).spread_of.empty() ? "The band" : "The darker band";
  hint_of(services_, "M" + text.substr(1) + ". The line has at most " + std::to_string(options.points) +
                         " points, each the mean of consecutive positions. " + band +
                         " spans the smallest to the largest of them, so no peak is lost. Zoom in (wheel) until every "
                         "position has its own point.");
}

CurvesOptions RunCurvesView::options_of(const ViewContext& context) const {
  CurvesOptions options;
  options.quantity = run_quantities()[static_cast<std::size_t>(quantity_)].quantity;
  options.preview = context.a->preview;
  options.name_a = context.a->label;
  options.heads = context.marked_heads();
  if (drawable(context.b) && why_no_curve_of_b(context).empty())
    options.compare = static_cast<MapCompare>(compare_);  // else A's alone
  take_span(context, options);
  if (options.compare == MapCompare::none) return options;
  options.preview_b = context.b->preview;
  options.name_b = context.b->label;
  return options;
}

void RunCurvesView::take_span(const ViewContext& context, CurvesOptions& options) const {
  const int n = context.a->run->n_tokens();
  const TokenSpan span = shown_span(*context.selection, n);
  if (span.size() == n) return;
  options.first = span.begin;
  options.count = std::min(span.end, std::max(span.begin + 1, axis_length(context, options.compare))) - span.begin;
}

/// Another model has no curve beside A's; a preview has no likelihood, and under another window no recall.
std::string RunCurvesView::why_no_curve_of_b(const ViewContext& context) const {
  if (!drawable(context.b)) return {};
  if (!same_shape(*context.a->run, *context.b->run)) return "its model has different layers or KV heads.";
  const RunQuantity quantity = run_quantities()[static_cast<std::size_t>(quantity_)].quantity;
  if (context.b->preview && !previews(quantity)) return "a preview is not measured.";
  return quantity == RunQuantity::recall ? why_no_recall(*context.b->run, context.b->preview) : std::string();
}

std::string RunCurvesView::refusal(const ViewContext& context) const {
  const CurvesOptions options = options_of(context);
  const RunRecord& run = *context.a->run;
  if (options.preview && !previews(options.quantity))
    return "A preview is not measured: decode it to see its " + std::string(info_of(options.quantity).title) + ".";
  if (options.quantity == RunQuantity::recall && run.future_mass.empty()) return why_no_recall(run, options.preview);
  if (options.quantity == RunQuantity::output_error && run.output_error.empty())
    return "Output error was not measured in this run.";
  if (options.quantity == RunQuantity::cache_bytes && run.model.bytes_of_token() == 0)
    return "The run did not record the number format of its cache.";
  if (options.compare == MapCompare::difference && common_prefix(run, *context.b->run) == 0)
    return "A and B diverge at the first token, so there is nothing to subtract.";
  if (options.first >= axis_length(context, options.compare))
    return "A and B diverge before the shown range, so there is nothing to subtract.";
  return {};
}

std::optional<ViewFigure> RunCurvesView::figure(const ViewContext& context) const {
  if (!drawable(context.a) || !refusal(context).empty()) return std::nullopt;
  const CurvesOptions options = options_of(context);
  ViewFigure figure{options, {context.a->run}};
  if (options.compare != MapCompare::none) figure.runs.push_back(context.b->run);
  return figure;
}

bool RunCurvesView::build(const ViewContext& context, const Key& key) {
  std::vector<std::shared_ptr<const RunRecord>> runs = {context.a->run};
  if (key.options.compare != MapCompare::none) runs.push_back(context.b->run);
  std::int64_t cost = 0;
  for (const auto& run : runs)
    cost += run_curve_cost(*run, key.options.quantity, {key.options.first, key.options.count});
  const auto make = [runs, options = key.options, style = services_.theme->figure_style(key.width, key.height)] {
    std::vector<const RunRecord*> pointers;
    for (const auto& run : runs) pointers.push_back(run.get());
    return curves_figure(pointers, options, style).figure;
  };
  if (cost > kCheap) {
    if (std::optional<Figure> figure = debounced_.of(key, make); figure && rebuild_.due(key))
      take(std::move(*figure), key);
  } else if (rebuild_.due(key, key.options != drawn_options_)) {  // where a person zooms or pans it follows at once
    take(make(), key);
  }
  return drawn_;
}

void RunCurvesView::take(Figure figure, const Key& key) {
  drawing_.set(std::move(figure));
  rebuild_.done();
  drawn_options_ = key.options;
  drawn_ = true;
}

int RunCurvesView::axis_length(const ViewContext& context, MapCompare compare) const {
  return curve_positions(*context.a->run, context.b != nullptr ? context.b->run.get() : nullptr, compare);
}

int RunCurvesView::n_shown(const ViewContext& context, const CurvesOptions& options) const {
  return options.count > 0 ? options.count : axis_length(context, options.compare);
}

/// Dragging scrubs, what else the mouse does is the timeline's; the position of the selection is a line.
void RunCurvesView::handle_mouse(ViewContext& context, ImVec2 origin) {
  const Panel* panel = drawing_.figure().panel("curves");
  if (panel == nullptr) return;
  // As the picture has it, which may be a frame older than the selection.
  const int n = drawn_options_.count > 0 ? drawn_options_.count : axis_length(context, options_of(context).compare);
  const TokenSpan drawn{drawn_options_.first, drawn_options_.first + n};
  const ImVec2 a{origin.x + static_cast<float>(panel->box.x), origin.y + static_cast<float>(panel->box.y)};
  const ImVec2 b{origin.x + static_cast<float>(panel->box.right()), origin.y + static_cast<float>(panel->box.bottom())};
  services_.items->add("curves.plot", item_rect(a, b));
  const bool active = ImGui::IsItemActive();
  const float at = (static_cast<float>(context.q() - drawn.begin) + 0.5f) / static_cast<float>(drawn.size());
  if (at >= 0 && (at <= 1 || drawn_options_.count == 0)) {
    const float x = std::floor(a.x + std::min(1.f, at) * (b.x - a.x));
    ImGui::GetWindowDrawList()->AddLine({x, a.y}, {x, b.y}, to_imgui(services_.theme->palette.accent),
                                        services_.theme->px(1.5f));
  }
  mouse_.handle_part(context, a, b, ImGui::IsItemHovered(), drawn);
  if (!active || b.x <= a.x) return;
  const float share = std::clamp((ImGui::GetIO().MousePos.x - a.x) / (b.x - a.x), 0.f, 1.f);
  const int last = std::min(drawn.end, context.a->run->n_tokens()) - 1;
  context.selection->q =
      std::clamp(drawn.begin + static_cast<int>(share * static_cast<float>(drawn.size())), 0, std::max(0, last));
}

}  // namespace kvscope::views
