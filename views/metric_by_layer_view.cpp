#include "views/metric_by_layer_view.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/layer_head_map_figure.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/counted_maps.h"
#include "views/widgets/measure_button.h"

namespace kvscope::views {
namespace {

/// The one value that all heads have, if they do: their dots are a line then.
std::optional<double> common_value(const LayerSeries& series) {
  std::optional<double> common;
  for (const auto& layer : series.layers) {
    for (const LayerSeries::Value& v : layer) {
      if (std::isnan(v.value)) continue;
      if (common && std::abs(*common - v.value) > 1e-6) return {};
      common = v.value;
    }
  }
  return common;
}

/// Which series are a line, and at what; empty where each shows a distribution.
std::string lines_of(const std::vector<LayerSeries>& all) {
  std::string text;
  for (const LayerSeries& series : all) {
    if (const auto value = common_value(series))
      text += (text.empty() ? ". All heads have the same value: " : ", ") +
              (series.name.empty() ? "" : series.name + " ") + format_number(*value);
  }
  return text;
}

/// Where the map has no difference: what is drawn of A and of B all the same.
std::string parted_words(const RunRecord& a, const RunRecord& b, std::int32_t q) {
  const int common = common_prefix(a, b);
  if (!tokens_part(a, b) || resolve_query(a, q) < common) return {};
  return ". Texts diverge at token " + std::to_string(common) + ": A and B are side by side, each with its own text";
}

}  // namespace

void MetricByLayerView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.metric_by_layer", "No layers yet",
                "Run a prompt or open a trace to see the map's metric layer by layer, one dot per KV head.", "Run",
                "run.start");
    return;
  }
  const MetricByLayerOptions options = options_of(context);
  count(context, options);
  draw_note(shown_.distributions.series.empty() ? options : shown_.options);  // the query that the picture is of
  if (!is_of_set()) draw_measure_button(services_, context, options.metric, options.with_b);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < services_.theme->px(90) || room.y < services_.theme->px(70)) return too_little_room(services_, "layers");
  if (n_counted_ > 0 && rebuild_.due({n_counted_, room.x, room.y, services_.theme->scale, services_.theme->dark})) {
    drawing_.set(metric_by_layer_figure(shown_.distributions, pointers_to(shown_.runs), shown_.options,
                                        services_.theme->figure_style(room.x, room.y))
                     .figure);
    rebuild_.done();
  }
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  ImGui::InvisibleButton("by_layer", room);
  handle_mouse(context, origin);
  if (options.preview || options.preview_b)
    services_.items->add("preview.badge", item_rect(origin, {origin.x + room.x, origin.y + room.y}));
}

void MetricByLayerView::count(const ViewContext& context, const MetricByLayerOptions& options) {
  const auto take = [this](Counted counted) {
    shown_ = std::move(counted);
    ++n_counted_;
    recount_.done();
  };
  if (auto counted = background_.take()) take(std::move(*counted));
  const std::vector<ShownRun> shown = context.counted_runs(options.with_b);
  const CountKey key{keys_of(shown), options};
  if (background_.is_busy() || !recount_.due(key)) return;
  const auto runs = records_of(shown);
  auto make = [options, runs]() -> Counted { return {options, layer_distributions(pointers_to(runs), options), runs}; };
  if (is_counted_at_once(runs, options.metric)) return take(make());
  background_.post(std::move(make));
}

/// What is drawn, and where there is nothing to draw why not.
void MetricByLayerView::draw_note(const MetricByLayerOptions& options) const {
  const FontScope small(services_.theme->fonts.small);
  const MetricInfo& info = metric_info(options.metric);
  std::string text = std::string(info.title);
  text += options.q < 0 ? " at each run's last query" : " at query " + std::to_string(options.q);
  if (is_of_set()) text += ", over " + std::to_string(shown_.runs.size()) + " runs";
  if (!options.heads.empty())
    text +=
        ", " + std::to_string(options.heads.size()) + (options.heads.size() == 1 ? " marked head" : " marked heads");
  const auto& series = shown_.distributions.series;
  const bool none = !series.empty() && shown_.options.metric == options.metric &&
                    std::ranges::all_of(series, [](const LayerSeries& s) { return std::isnan(s.mean); });
  if (none) text += info.needs_oracle ? ": no value, because no choice was needed here" : ": no value here";
  if (shown_.options.metric == options.metric) {
    text += lines_of(series);
    if (const std::string& oracle = shown_.distributions.oracle; !oracle.empty())
      text += "." + oracle.substr(0, oracle.size() - 1);
  }
  if (shown_.options.with_b && options.with_b) text += parted_words(*shown_.runs[0], *shown_.runs[1], options.q);
  const bool no_b = options.with_b && info.needs_oracle && shown_.runs.size() == 2;
  const std::string why = no_b ? why_no_recall(*shown_.runs[1], options.preview_b) : "";
  if (!why.empty()) text += ". B: " + why;
  wrapped_text_in(none || !why.empty() ? services_.theme->palette.warn : services_.theme->palette.muted, text);
  services_.items->add_text("by_layer.note", last_item(), text);
}

MetricByLayerOptions MetricByLayerView::options_of(const ViewContext& context) const {
  MetricByLayerOptions options;
  options.metric = context.selection->metric;
  options.q = context.counted_q();
  options.fit = !metric_info(options.metric).is_share;
  options.preview = context.a->preview && context.set == nullptr;
  options.heads = context.marked_heads();
  if (context.set != nullptr || !drawable(context.b) || !same_shape(*context.a->run, *context.b->run)) return options;
  options.with_b = true;
  options.preview_b = context.b->preview;
  options.name_a = context.a->label;
  options.name_b = context.b->label;
  // Where one run ends before the other, both are seen at the last query that they share.
  const int common = common_prefix(*context.a->run, *context.b->run);
  if (!tokens_part(*context.a->run, *context.b->run)) options.q = std::min(options.q, common - 1);
  return options;
}

std::optional<ViewFigure> MetricByLayerView::figure(const ViewContext& context) const {
  if (!drawable(context.a)) return std::nullopt;
  const MetricByLayerOptions options = options_of(context);
  return ViewFigure{options, records_of(context.counted_runs(options.with_b))};
}

/// The layer under the mouse in words; a click selects it, and of its heads the one whose value is nearest.
void MetricByLayerView::handle_mouse(ViewContext& context, ImVec2 origin) {
  const Panel* panel = drawing_.figure().panel("by_layer");
  if (panel == nullptr || panel->columns != shown_.distributions.n_layers()) return;
  for (int layer = 0; layer < panel->columns; ++layer) {
    const Box cell = panel->cell(0, layer);
    services_.items->add(
        "by_layer.layer", layer,
        item_rect({origin.x + static_cast<float>(cell.x), origin.y + static_cast<float>(cell.y)},
                  {origin.x + static_cast<float>(cell.right()), origin.y + static_cast<float>(cell.bottom())}));
  }
  if (!ImGui::IsItemHovered()) return;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const auto cell = panel->cell_at({mouse.x - origin.x, mouse.y - origin.y});
  if (!cell) return;
  const int layer = cell->second;
  draw_hover_card(layer);
  if (!ImGui::IsMouseClicked(ImGuiMouseButton_Left)) return;
  context.selection->layer = layer;
  const double y = mouse.y - origin.y,
               value = shown_.distributions.lo +
                       (panel->box.bottom() - y) / panel->box.h * (shown_.distributions.hi - shown_.distributions.lo);
  double nearest = INFINITY;
  for (const LayerSeries::Value& v : shown_.distributions.series[0].layers[static_cast<std::size_t>(layer)]) {
    if (std::abs(v.value - value) < nearest) {
      nearest = std::abs(v.value - value);
      context.selection->kv_head = v.kv_head;
    }
  }
}

void MetricByLayerView::draw_hover_card(int layer) const {
  const Palette& p = services_.theme->palette;
  const HoverCard card(services_);
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + services_.theme->px(360));
  draw_text(services_.theme->fonts.bold, p.text, "Layer " + std::to_string(layer));
  for (const LayerSeries& series : shown_.distributions.series) {
    std::vector<double> values;
    for (const LayerSeries::Value& v : series.layers[static_cast<std::size_t>(layer)]) values.push_back(v.value);
    const Quartiles q = quartiles(values);
    std::string line = series.name.empty() ? "" : series.name + ": ";
    line += q.n == 0 ? "no value"
                     : "median " + format_number(q.median) + ", middle half " + format_number(q.q1) + " to " +
                           format_number(q.q3) + " over " + std::to_string(q.n) +
                           (is_of_set() ? " values of heads and runs" : " heads");
    if (q.n > 0 && !series.chance.empty())
      line += ", chance " + format_number(series.chance[static_cast<std::size_t>(layer)]);
    text_in(p.text, line);
    services_.items->add_text("by_layer.hover", last_item(), line);
  }
  text_in(p.muted, metric_info(shown_.options.metric).definition);
  ImGui::PopTextWrapPos();
}

}  // namespace kvscope::views
