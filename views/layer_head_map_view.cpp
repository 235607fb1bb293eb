#include "views/layer_head_map_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "views/figure/figure_builder.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {
namespace {

constexpr std::int64_t kAtOnce = 1 << 20;  // lifetimes; the map of more is made beside the window

constexpr std::array kMetrics = {Metric::density,     Metric::evict_ratio, Metric::cache_share,  Metric::recall,
                                 Metric::mass_recall, Metric::regret,      Metric::mean_recall,  Metric::above_chance,
                                 Metric::mass_kept,   Metric::read_share,  Metric::output_error, Metric::read_mass};

}  // namespace

void LayerHeadMapView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.layer_head_map", "No heads yet",
                "Run the model on a prompt, or open a trace: each layer's KV heads appear here with what they keep.",
                "Run", "run.start");
    return;
  }
  draw_header(context);
  if (draw_refusal(context)) return;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < services_.theme->px(90) || room.y < services_.theme->px(70)) return;
  const LayerHeadMapOptions options = options_of(context);
  const bool with_b = options.compare != MapCompare::none;
  const Key key{
      RunKey(context.a),    RunKey(with_b ? context.b : nullptr), options, room.x, room.y, services_.theme->scale,
      services_.theme->dark};
  if (auto built = beside_.take()) {
    show(std::move(*built));
    rebuild_.done();
  }
  if (!beside_.is_busy() && rebuild_.due(key)) build(context, key);
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  ImGui::InvisibleButton("map", room);
  draw_panel(context, "map", "map.cell", *context.a, origin);
  if (options.compare == MapCompare::side_by_side) draw_panel(context, "map.b", "map.b.cell", *context.b, origin);
  if (options.preview || options.preview_b)
    services_.items->add("preview.badge", item_rect(origin, {origin.x + room.x, origin.y + room.y}));
}

void LayerHeadMapView::draw_header(ViewContext& context) {
  std::array<std::string_view, kMetrics.size()> names, hints;
  int chosen = 0;
  for (std::size_t i = 0; i < kMetrics.size(); ++i) {
    const MetricInfo& info = metric_info(kMetrics[i]);
    names[i] = info.title, hints[i] = info.definition;
    if (kMetrics[i] == context.selection->metric) chosen = static_cast<int>(i);
  }
  if (segmented(services_, "map.metric", names, hints, chosen)) context.selection->metric = kMetrics[chosen];
  if (drawable(context.b)) {
    constexpr std::array<std::string_view, 3> kNames = {"A", "A | B", "A − B"};
    if (same_shape(*context.a->run, *context.b->run)) {
      segmented(services_, "map.compare", kNames, {}, compare_);
    } else {
      text_in(services_.theme->palette.warn, "B has other layers and heads: it cannot be compared cell by cell.");
    }
  }
  draw_oracle_note(context);
  draw_comparison_note(context);
}

std::string LayerHeadMapView::refusal(const ViewContext& context) const {
  if (!drawable(context.b) || static_cast<MapCompare>(compare_) == MapCompare::none) return {};
  const RunRecord &a = *context.a->run, &b = *context.b->run;
  const int common = common_prefix(a, b);
  if (!same_shape(a, b) || !tokens_part(a, b) || context.q() < common) return {};
  return "Different tokens from " + std::to_string(common) + " on: only distributions compare.";
}

bool LayerHeadMapView::draw_refusal(ViewContext& context) {
  const std::string why = refusal(context);
  if (why.empty()) return false;
  wrapped_text_in(services_.theme->palette.warn, why);
  services_.items->add_text("map.refusal", last_item(), why);
  if (ImGui::Button("Replay A's tokens under B's policy") && context.command) context.command("run.replay_as_b");
  services_.items->add("map.replay", last_item());
  const int common = common_prefix(*context.a->run, *context.b->run);
  if (common == 0) return true;
  ImGui::SameLine();
  if (ImGui::Button(("Go to query " + std::to_string(common - 1)).c_str()))
    scrub_to(*context.selection, common - 1, *context.a->run);
  services_.items->add("map.go_to_common", last_item());
  return true;
}

/// What A and B are held against, and the query that both have.
void LayerHeadMapView::draw_comparison_note(const ViewContext& context) {
  const LayerHeadMapOptions options = options_of(context);
  if (options.compare == MapCompare::none || !refusal(context).empty()) return;
  const FontScope small(services_.theme->fonts.small);
  if (options.q != context.q()) {
    const std::string text = "Both at query " + std::to_string(options.q) + ": one of them has no more tokens.";
    text_in(services_.theme->palette.warn, text);
    services_.items->add_text("map.both_at", last_item(), text);
  }
  if (common_oracle_.empty() || !metric_info(options.metric).needs_oracle) return;
  text_in(services_.theme->palette.muted, common_oracle_);
  services_.items->add_text("map.common_oracle", last_item(), common_oracle_);
}

void LayerHeadMapView::draw_oracle_note(const ViewContext& context) {
  const RunRecord& run = *context.a->run;
  if (!metric_info(context.selection->metric).needs_oracle || run.oracle_horizon >= run.n_tokens()) return;
  const FontScope small(services_.theme->fonts.small);
  text_in(services_.theme->palette.warn,
          run.future_mass.empty() ? std::string("No oracle yet: recall needs the future attention of this run.")
                                  : "So far: the oracle has seen " + std::to_string(run.oracle_horizon) + " of " +
                                        std::to_string(run.n_tokens()) + " queries.");
}

LayerHeadMapOptions LayerHeadMapView::options_of(const ViewContext& context) const {
  LayerHeadMapOptions options;
  options.metric = context.selection->metric;
  options.q = context.q();
  options.preview = context.a->preview;
  if (!drawable(context.b) || !same_shape(*context.a->run, *context.b->run)) return options;
  options.compare = static_cast<MapCompare>(compare_);
  // Where one run simply ends before the other, both are seen at the last query that they share.
  const int common = common_prefix(*context.a->run, *context.b->run);
  if (options.compare != MapCompare::none && !tokens_part(*context.a->run, *context.b->run))
    options.q = std::min(options.q, common - 1);
  if (options.compare == MapCompare::none) return options;
  options.preview_b = context.b->preview;
  options.fit = options.compare == MapCompare::difference;
  options.name_a = context.a->label;
  options.name_b = context.b->label;
  return options;
}

std::optional<ViewFigure> LayerHeadMapView::figure(const ViewContext& context) const {
  if (!drawable(context.a) || !refusal(context).empty()) return std::nullopt;
  const LayerHeadMapOptions options = options_of(context);
  ViewFigure figure{options, {context.a->run}};
  if (options.compare != MapCompare::none) figure.runs.push_back(context.b->run);
  return figure;
}

void LayerHeadMapView::build(const ViewContext& context, const Key& key) {
  Runs runs = {context.a->run};
  if (key.options.compare != MapCompare::none) runs.push_back(context.b->run);
  const FigureStyle style = services_.theme->figure_style(key.width, key.height);
  std::int64_t lifetimes = 0;
  for (const auto& run : runs)
    lifetimes += static_cast<std::int64_t>(run->n_tokens()) * run->evict_at.n_layers() * run->evict_at.n_kv_heads();
  if (lifetimes <= kAtOnce) {
    show(make(runs, key.options, style));
    return rebuild_.done();
  }
  beside_.post([runs = std::move(runs), options = key.options, style] { return make(runs, options, style); });
}

LayerHeadMapView::Built LayerHeadMapView::make(const Runs& runs, const LayerHeadMapOptions& options,
                                               const FigureStyle& style) {
  std::vector<const RunRecord*> pointers;
  for (const auto& run : runs) pointers.push_back(run.get());
  return {options, layer_head_map_figure(pointers, options, style), common_oracle_note(pointers, options),
          runs[0]->evict_at.n_layers(), runs[0]->evict_at.n_kv_heads()};
}

void LayerHeadMapView::show(Built built) {
  const auto& values = std::get<std::vector<double>>(built.figure.data.columns[3].values);
  const std::size_t n = static_cast<std::size_t>(built.n_layers) * static_cast<std::size_t>(built.n_kv_heads);
  const auto part = [&](std::size_t from) {
    HeadMap map{built.n_layers, built.n_kv_heads, {}};
    for (std::size_t i = from; i < from + n && i < values.size(); ++i)
      map.values.push_back(static_cast<float>(values[i]));
    return map;
  };
  map_a_ = part(0);
  map_b_ = built.options.compare == MapCompare::side_by_side ? part(n) : HeadMap{};
  common_oracle_ = std::move(built.common_oracle);
  drawing_.set(std::move(built.figure.figure));
}

void LayerHeadMapView::draw_panel(ViewContext& context, const char* panel_id, const char* item, const ShownRun& shown,
                                  ImVec2 origin) {
  const Panel* panel = drawing_.figure().panel(panel_id);
  if (panel == nullptr) return;
  const auto screen = [&](const Box& b) {
    return item_rect({origin.x + static_cast<float>(b.x), origin.y + static_cast<float>(b.y)},
                     {origin.x + static_cast<float>(b.right()), origin.y + static_cast<float>(b.bottom())});
  };
  for (int layer = 0; layer < panel->rows; ++layer) {
    for (int head = 0; head < panel->columns; ++head)
      services_.items->add(item, layer, head, screen(panel->cell(layer, head)));
  }
  const Palette& p = services_.theme->palette;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const auto outline = [&](int layer, int head, Colour colour, float width) {
    const ItemRect r = screen(panel->cell(layer, head));
    list.AddRect({r.x, r.y}, {r.x + r.w, r.y + r.h}, to_imgui(colour), 0, 0, services_.theme->px(width));
  };
  const Cursor at = context.cursor_in(*shown.run);
  if (at.layer < panel->rows && at.kv_head < panel->columns) {
    outline(at.layer, at.kv_head, p.panel, 4);  // a light edge under a dark one stands out on every colour
    outline(at.layer, at.kv_head, p.text, 2);
  }
  if (!ImGui::IsItemHovered()) return;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const auto cell = panel->cell_at({mouse.x - origin.x, mouse.y - origin.y});
  if (!cell) return;
  const auto [layer, head] = *cell;
  outline(layer, head, p.accent, 2);
  draw_hover_card(context, *shown.run, layer, head);
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
    context.selection->layer = layer;
    context.selection->kv_head = head;
  }
}

void LayerHeadMapView::draw_hover_card(const ViewContext& context, const RunRecord& run, int layer, int kv_head) {
  const Palette& p = services_.theme->palette;
  const MetricInfo& info = metric_info(context.selection->metric);
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(services_.theme->px(380));
  draw_text(services_.theme->fonts.bold, p.text,
            "Layer " + std::to_string(layer) + " · KV head " + std::to_string(kv_head));
  const auto value = [&](const HeadMap& map) {
    if (map.values.empty()) return std::string();
    const float v = map.at(layer, kv_head);
    return std::isnan(v) ? std::string("no value") : format_number(v, 4);
  };
  const bool is_difference = options_of(context).compare == MapCompare::difference;
  std::string line = std::string(info.title) + (is_difference ? ", A − B " : " ") + value(map_a_);
  if (!map_b_.values.empty()) line += " in A, " + value(map_b_) + " in B";
  text_in(p.text, line);
  services_.items->add_text("map.hover", last_item(), line);
  if (info.needs_oracle && run.oracle_horizon < run.n_tokens()) text_in(p.warn, "so far");
  const int group = run.model.n_kv_heads > 0 ? run.model.n_heads / run.model.n_kv_heads : 0;
  if (group > 1) {
    text_in(p.muted,
            "query heads " + std::to_string(kv_head * group) + "–" + std::to_string(kv_head * group + group - 1));
  }
  text_in(p.muted, info.definition);
  services_.items->add_text("map.hover_definition", last_item(), std::string(info.definition));
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

}  // namespace kvscope::views
