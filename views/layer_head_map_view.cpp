#include "views/layer_head_map_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/core/study/measure/common_oracle.h"
#include "views/figure/figure_builder.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/context_menu.h"
#include "views/widgets/map_look_buttons.h"
#include "views/widgets/measure_button.h"
#include "views/widgets/no_value_note.h"
#include "views/widgets/parted_note.h"
#include "views/widgets/pin_marks.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

bool has_text(const Figure& figure, const std::string& utf8) {
  return std::ranges::any_of(figure.items, [&](const Primitive& item) {
    const auto* text = std::get_if<Text>(&item);
    return text != nullptr && text->utf8 == utf8;
  });
}

}  // namespace

void LayerHeadMapView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.layer_head_map", "No heads yet",
                "Run a prompt or open a trace to see what each layer's KV heads keep.", "Run", "run.start");
    return;
  }
  little_room_ = ImGui::GetContentRegionAvail().y < services_.theme->px(kLittleRoom);
  draw_header(context);
  const bool needs_oracle = metric_info(context.selection->metric).needs_oracle;
  draw_pair_notes(services_, context,
                  {needs_oracle, counted_.empty() ? std::string_view() : counted_.maps().common_oracle, little_room_,
                   services_.theme->px(kLeastHeight)});
  if (refuses_difference(context)) return little_room_ ? draw_refusal(services_) : void();
  draw_unsaid();
  // Before the room is asked for: what a count said may be what takes it.
  const LayerHeadMapOptions options = options_of(context);
  counted_.update(context.counted_runs(options.compare != MapCompare::none), options);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < services_.theme->px(90) || room.y < services_.theme->px(kLeastHeight))
    return too_little_room(services_, "map");
  if (!counted_.empty()) make_picture(counted_.with_look(options), room);
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  ImGui::InvisibleButton("map", room);
  frame_focused_item();
  if (counted_.empty()) return;
  draw_bars(context, origin, ImGui::IsItemHovered());
  draw_panel(context, "map", "map.cell", *context.a, origin, brush_a_);
  if (drawn_.compare == MapCompare::side_by_side && drawable(context.b) && context.set == nullptr)
    draw_panel(context, "map.b", "map.b.cell", *context.b, origin, brush_b_);
  draw_head_menu(services_, context, value_line(context, {context.selection->layer, context.selection->kv_head}));
  draw_no_value_notes(context, origin);
  if (options.preview || options.preview_b)
    services_.items->add("preview.badge", item_rect(origin, {origin.x + room.x, origin.y + room.y}));
}

void LayerHeadMapView::draw_header(ViewContext& context) {
  std::vector<Metric> metrics(map_metrics().begin(), map_metrics().end());
  // One that is chosen elsewhere is shown, so it is among them.
  if (!std::ranges::count(metrics, context.selection->metric)) metrics.push_back(context.selection->metric);
  std::vector<std::string_view> names, hints;
  int chosen = 0;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const MetricInfo& info = metric_info(metrics[i]);
    names.push_back(info.title), hints.push_back(info.definition);
    if (metrics[i] == context.selection->metric) chosen = static_cast<int>(i);
  }
  if (segmented(services_, "map.metric", names, hints, chosen))
    choose_metric(*context.selection, metrics[static_cast<std::size_t>(chosen)]);
  const bool compared = is_compared(context);
  if (context.set != nullptr) {
    draw_set(context);
  } else if (compared) {
    constexpr std::array<std::string_view, 3> kNames = {"A", "A | B", "B − A"};
    int compare = static_cast<int>(context.selection->map.compare);
    // There the line that says so may have no room.
    const bool judged = little_room_ && metric_info(context.selection->metric).needs_oracle && !counted_.empty();
    const std::string_view by = judged ? std::string_view(counted_.maps().common_oracle) : std::string_view();
    const std::array<std::string_view, 3> hints = {"", by, by};
    if (segmented(services_, "map.compare", kNames, hints, compare, little_room_ ? 1 : 2)) {
      context.selection->map.compare = static_cast<MapCompare>(compare);
      context.selection->map.clip = context.selection->map.clip_b = {};  // they were of another axis
    }
  } else if (drawable(context.b)) {
    cut_text_in(services_, services_.theme->palette.warn,
                "B has different layers or heads: no cell-by-cell comparison.");
  }
  MapLook& look = context.selection->map;
  if (draw_look_buttons(
          services_, look,
          {.compared = compared, .one_row = little_room_, .marked = little_room_ ? marked_text(context) : ""}))
    context.selection->heads = {};
  if (!little_room_) draw_marked(context);
  draw_oracle_note(context);
  if (context.set == nullptr)
    draw_measure_button(services_, context, context.selection->metric,
                        compared && context.selection->map.compare != MapCompare::none);
}

bool LayerHeadMapView::is_compared(const ViewContext& context) {
  return context.set == nullptr && drawable(context.b) && same_shape(*context.a->run, *context.b->run);
}

/// Over how many runs, what of them, and the way back to A.
void LayerHeadMapView::draw_set(ViewContext& context) {
  constexpr std::array<std::string_view, 3> kNames = {"Median", "Mean", "Spread"};
  constexpr std::array kOffered = {Aggregate::median, Aggregate::mean, Aggregate::iqr};
  MapLook& look = context.selection->map;
  int chosen = static_cast<int>(std::ranges::find(kOffered, look.aggregate) - kOffered.begin());
  if (segmented(services_, "map.aggregate", kNames, {}, chosen)) {
    look.aggregate = kOffered[static_cast<std::size_t>(chosen)];
    look.clip = look.clip_b = {};
  }
  const FontScope small(services_.theme->fonts.small);
  const std::string at = context.selection->q
                             ? ", at query " + std::to_string(*context.selection->q) + " or the run's last"
                             : ", each at its last query";
  // The counts may lag by a query or a metric: then no run is reported as having no value.
  const LayerHeadMapOptions now = options_of(context), of = counted_.empty() ? now : counted_.with_look(now);
  const bool is_now = !counted_.empty() && of.metric == now.metric && of.q == now.q && of.compare == MapCompare::none &&
                      counted_.maps().counts.all == static_cast<int>(context.set->size());
  const std::string text = is_now ? describe_aggregate(look.aggregate, counted_.maps().counts, at)
                                  : describe_aggregate(look.aggregate, context.set->size()) + at;
  draw_note(services_.theme->palette.accent, text);
  services_.items->add_text("map.set", last_item(), text);
  if (line_button(services_, "map.run_a", "A only", "Show A instead of the set of runs", false, true))
    context.selection->runs.clear();
}

/// "4 of 90 heads marked"; empty where none is.
std::string LayerHeadMapView::marked_text(const ViewContext& context) {
  const HeadSet marked = context.marked_heads();
  const RunRecord& run = *context.a->run;
  if (marked.empty()) return "";
  return std::to_string(marked.size()) + " of " + std::to_string(run.evict_at.n_layers() * run.evict_at.n_kv_heads()) +
         " heads marked";
}

/// How many heads are marked, and the way back to all. The map must not move under a brush: the line is there before it.
void LayerHeadMapView::draw_marked(ViewContext& context) {
  const FontScope small(services_.theme->fonts.small);
  const std::string text = marked_text(context);
  ImGui::AlignTextToFramePadding();
  const float room = ImGui::GetContentRegionAvail().x;
  if (text.empty()) return cut_text_in(services_, services_.theme->palette.faint, "Drag over heads to mark them.");
  const float button =
      ImGui::CalcTextSize("All heads").x + 2 * ImGui::GetStyle().FramePadding.x + services_.theme->px(4);
  cut_text_in(services_, services_.theme->palette.accent, text, std::max(1.f, room - button));  // never a second line
  services_.items->add_text("map.marked", last_item(), text);
  if (line_button(services_, "map.unmark", "All heads", "Clear the marks: every view covers all heads (Esc)", false))
    context.selection->heads = {};
}

void LayerHeadMapView::draw_note(Colour colour, const std::string& text) const {
  if (little_room_) return cut_text_in(services_, colour, text);
  wrapped_text_in(colour, text);
}

void LayerHeadMapView::draw_oracle_note(const ViewContext& context) {
  const RunRecord& run = *context.a->run;
  if (!metric_info(context.selection->metric).needs_oracle || run.oracle_horizon >= run.n_tokens()) return;
  const FontScope small(services_.theme->fonts.small);
  draw_note(services_.theme->palette.warn, run.future_mass.empty()
                                               ? why_no_recall(run, context.a->preview)
                                               : "Partial: the oracle has seen " + std::to_string(run.oracle_horizon) +
                                                     " of " + std::to_string(run.n_tokens()) + " queries.");
}

/// Once for each count: it looks at every lifetime.
void LayerHeadMapView::say_why_none(const ViewContext& context) {
  if (counted_.empty() || why_of_ == counted_.n()) return;
  why_of_ = counted_.n();
  why_none_.clear();
  const LayerHeadMapOptions of = counted_.with_look({});
  const std::vector<const RunRecord*> runs = counted_.runs();
  const auto why = [&](std::size_t i) {
    if (!counted_.maps().common_oracle.empty() && CommonOracle::of(*runs[0], *runs[1])->asks(of.q))
      return std::string("The shared oracle has room for every token here.");
    const bool is_preview = i == 0 ? context.a->preview : context.b != nullptr && context.b->preview;
    if (is_preview && is_decoded_only(of.metric))
      return std::string("A preview is not measured: decode again to measure it.");
    const bool no_oracle = metric_info(of.metric).needs_oracle && runs[i]->future_mass.empty();
    return no_oracle ? why_no_recall(*runs[i], is_preview) : why_no_value(*runs[i], of.metric, of.q);
  };
  for (std::size_t part = 0; part < counted_.maps().parts.size(); ++part) {
    why_none_.emplace_back();
    if (std::ranges::any_of(counted_.maps().parts[part].map.values, [](float v) { return !std::isnan(v); })) continue;
    std::string text;
    if (of.compare == MapCompare::difference) {  // needs both: it is said of the one that has none
      const auto& valued = counted_.maps().parts[part].valued;
      const std::string a = valued[0] ? "" : why(0), b = valued[1] ? "" : why(1);
      text = a == b ? a : (a.empty() ? "" : "A: " + a + (b.empty() ? "" : " ")) + (b.empty() ? "" : "B: " + b);
    } else {
      text = why(part);
      for (std::size_t i = 1; context.set != nullptr && i < runs.size() && !text.empty(); ++i) {
        if (why(i) != text) text.clear();  // a set needs one of them
      }
    }
    why_none_.back() = text.empty() ? "No head has a value at this query." : text;
  }
}

/// What maps too small for it had to say in the frame before, in a line above them.
void LayerHeadMapView::draw_unsaid() const {
  std::string text = unsaid_[0].empty() ? unsaid_[1] : unsaid_[0];
  if (drawn_.compare == MapCompare::side_by_side && unsaid_[0] != unsaid_[1])
    text = (unsaid_[0].empty() ? "" : "A: " + unsaid_[0]) + (unsaid_[0].empty() || unsaid_[1].empty() ? "" : " ") +
           (unsaid_[1].empty() ? "" : "B: " + unsaid_[1]);
  const FontScope small(services_.theme->fonts.small);
  const float line = ImGui::GetTextLineHeightWithSpacing();
  // The line must not take the room without which there is no map.
  if (text.empty() || ImGui::GetContentRegionAvail().y - line < services_.theme->px(kLeastHeight)) return;
  cut_text_in(services_, services_.theme->palette.muted, text);
  services_.items->add_text("map.why_none", last_item(), text);
}

/// A map that is hatched all over says why, on itself: above it the sentence would move the map while one scrubs.
void LayerHeadMapView::draw_no_value_notes(const ViewContext& context, ImVec2 origin) {
  unsaid_ = {};
  if (counted_.empty() || drawn_.metric != context.selection->metric) return;
  say_why_none(context);
  for (std::size_t part = 0; part < why_none_.size(); ++part) {
    const Panel* panel = drawing_.figure().panel(part == 0 ? "map" : "map.b");
    if (why_none_[part].empty() || panel == nullptr) continue;
    const bool was_said = part == 0 && metric_info(drawn_.metric).needs_oracle && context.a->run->future_mass.empty();
    const Box& box = panel->box;
    const ItemRect map{origin.x + static_cast<float>(box.x), origin.y + static_cast<float>(box.y),
                       static_cast<float>(box.w), static_cast<float>(box.h)};
    const ShownRun* of = part == 0 ? context.a : context.b;
    const bool is_above =
        context.set == nullptr && drawable(of) && !of->preview && is_unmeasured(*of->run, drawn_.metric);
    if (was_said || is_above) continue;
    const char* item = part == 0 ? "map.no_value" : "map.b.no_value";
    views::draw_no_value_note(services_, item, map, why_none_[part]);
    if (part < unsaid_.size() && !services_.items->find(item)) unsaid_[part] = why_none_[part];
  }
}

LayerHeadMapOptions LayerHeadMapView::options_of(const ViewContext& context) const {
  LayerHeadMapOptions options;
  options.metric = context.selection->metric;
  options.colormap = services_.theme->maps;
  options.q = context.counted_q();
  options.preview = context.a->preview && context.set == nullptr;
  const MapLook& look = context.selection->map;
  options.fit = look.fit, options.sort = look.sort, options.by_layer = look.by_layer;
  options.clip = look.clip;
  options.histogram = true;
  options.heads = context.marked_heads();
  if (context.set != nullptr) options.aggregate = look.aggregate;
  if (!is_compared(context)) return options;
  options.compare = look.compare;
  // Where one run simply ends before the other, both are seen at the last query that they share.
  const int common = common_prefix(*context.a->run, *context.b->run);
  if (options.compare != MapCompare::none && !tokens_part(*context.a->run, *context.b->run))
    options.q = std::min(options.q, common - 1);
  if (options.compare == MapCompare::none) return options;
  options.preview_b = context.b->preview;
  options.fit = look.fit || options.compare == MapCompare::difference;
  options.lock = look.lock || options.compare == MapCompare::difference;
  if (!options.lock) options.clip_b = look.clip_b;
  options.name_a = context.a->label;
  options.name_b = context.b->label;
  return options;
}

std::optional<ViewFigure> LayerHeadMapView::figure(const ViewContext& context) const {
  if (!drawable(context.a) || refuses_difference(context)) return std::nullopt;
  const LayerHeadMapOptions options = options_of(context);
  return ViewFigure{options, records_of(context.counted_runs(options.compare != MapCompare::none))};
}

void LayerHeadMapView::make_picture(const LayerHeadMapOptions& options, ImVec2 room) {
  const Theme& theme = *services_.theme;
  if (!rebuild_.due({counted_.n(), options, room.x, room.y, theme.scale, theme.dark})) return;
  drawing_.set(
      layer_head_map_figure(counted_.maps(), counted_.runs(), options, theme.figure_style(room.x, room.y)).figure);
  drawn_values_ = drawn_values(counted_.maps(), options);
  order_ = head_order(drawn_values_[0], options.sort);
  scales_.clear();
  for (std::size_t i = 0; i < drawn_values_.size(); ++i) scales_.push_back(map_scale(drawn_values_, i, options));
  drawn_ = options;
  bar_title_cut_ = !has_text(drawing_.figure(), colour_bar_title(options));
  rebuild_.done();
}

void LayerHeadMapView::draw_bars(ViewContext& context, ImVec2 origin, bool hovered) {
  MapLook& look = context.selection->map;
  const bool around_zero = drawn_.compare == MapCompare::difference;
  on_bar_ = false;
  if (const Panel* bar = drawing_.figure().panel("bar"))
    on_bar_ = thumbs_.handle(services_, "map.bar", *bar, origin, scales_[0], around_zero, hovered, look.clip);
  if (const Panel* bar = drawing_.figure().panel("bar.b"))
    on_bar_ |=
        thumbs_b_.handle(services_, "map.bar.b", *bar, origin, scales_.back(), around_zero, hovered, look.clip_b);
  const Panel* bar = drawing_.figure().panel("bar");
  const bool beside =
      bar != nullptr && hovered && ImGui::GetIO().MousePos.x > origin.x + static_cast<float>(bar->box.x);
  if ((on_bar_ || beside) && bar_title_cut_ && !ImGui::IsMouseDown(0)) hint_of(services_, colour_bar_title(drawn_));
}

void LayerHeadMapView::draw_panel(ViewContext& context, const char* panel_id, const char* item, const ShownRun& shown,
                                  ImVec2 origin, HeadBrush& brush) {
  const Panel* panel = drawing_.figure().panel(panel_id);
  if (panel == nullptr) return;
  const auto head_at = [&](int row, int place) {
    return KvHead{row, order_[static_cast<std::size_t>(row) * static_cast<std::size_t>(panel->columns) +
                              static_cast<std::size_t>(place)]};
  };
  const auto screen = [&](const Box& b) {
    return item_rect({origin.x + static_cast<float>(b.x), origin.y + static_cast<float>(b.y)},
                     {origin.x + static_cast<float>(b.right()), origin.y + static_cast<float>(b.bottom())});
  };
  for (int layer = 0; layer < panel->rows; ++layer) {
    for (int place = 0; place < panel->columns; ++place)
      services_.items->add(item, layer, head_at(layer, place).kv_head, screen(panel->cell(layer, place)));
  }
  const Palette& p = services_.theme->palette;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const auto outline = [&](int layer, int place, Colour colour, float width) {
    const ItemRect r = screen(panel->cell(layer, place));
    const float w = services_.theme->px(width);
    // Of a low cell a frame on its edge would leave no colour in sight: it goes around, past the wider one of the two.
    const float out = std::min(r.w, r.h) < services_.theme->px(8) ? services_.theme->px(2) + 0.5f : 0;
    list.AddRect({r.x - out, r.y - out}, {r.x + r.w + out, r.y + r.h + out}, to_imgui(colour), 0, w);
    return item_rect({r.x - out, r.y - out}, {r.x + r.w + out, r.y + r.h + out});
  };
  for (int layer = 0; layer < panel->rows && context.pins != nullptr; ++layer) {
    for (int place = 0; place < panel->columns; ++place) {
      const ItemRect r = screen(panel->cell(layer, place));
      PinMarks(services_, context, panel_id)
          .head(*shown.run, layer, head_at(layer, place).kv_head, {r.x, r.y}, {r.x + r.w, r.y + r.h});
    }
  }
  const Cursor at = context.cursor_in(*shown.run);
  for (int place = 0; at.layer < panel->rows && place < panel->columns; ++place) {
    if (head_at(at.layer, place).kv_head != at.kv_head) continue;
    outline(at.layer, place, p.panel, 4);  // a light edge under a dark one stands out on every colour
    services_.items->add("selected.head", outline(at.layer, place, p.text, 2));
  }
  const bool hovered = ImGui::IsItemHovered() && !on_bar_;
  if (const auto clicked =
          brush.handle(context.selection->heads, *panel, origin, head_at, hovered, HeadBrush::Plain::marks)) {
    context.selection->layer = clicked->layer;
    context.selection->kv_head = clicked->kv_head;
  }
  if (!hovered || brush.is_dragging()) return;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const auto cell = panel->cell_at({mouse.x - origin.x, mouse.y - origin.y});
  if (!cell) return;
  outline(cell->first, cell->second, p.accent, 2);
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Right))
    open_head_menu(*context.selection, head_at(cell->first, cell->second));
  draw_hover_card(context, *shown.run, head_at(cell->first, cell->second),
                  panel_id == std::string_view("map.b") ? 1 : 0);
}

}  // namespace kvscope::views
