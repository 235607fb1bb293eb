#include "views/layer_strip_pane.h"

#include <algorithm>
#include <cmath>

#include "views/figure/figure_builder.h"
#include "views/figure/fonts.h"
#include "views/figure/layer_strip_image.h"
#include "views/figure/token_facts.h"
#include "views/figure/token_text.h"
#include "views/widgets/chrome.h"
#include "views/widgets/hit_marks.h"
#include "views/widgets/pin_marks.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kMaxLabel = 12;  // code points
constexpr double kLabelColumn = 10;    // design pixels that a column needs for its token's string
constexpr const char* kPanel = "layers";

/// Of a box over `span`, the part that belongs to `tokens`.
Box part_of(const Box& box, TokenSpan span, TokenSpan tokens) {
  const double from = std::clamp(tokens.begin, span.begin, span.end), to = std::clamp(tokens.end, span.begin, span.end);
  return {box.x + (from - span.begin) / span.size() * box.w, box.y, (to - from) / span.size() * box.w, box.h};
}

}  // namespace

TokenStripOptions LayerStripPane::figure(const ViewContext& context, const Cursor& at) const {
  const TokenSpan span = shown_span(*context.selection, context.a->run->n_tokens());
  TokenStripOptions options;
  options.q = at.q;
  options.first = std::min(span.begin, at.q);  // tokens after q are not read yet
  options.count = std::clamp(std::min(span.end, at.q + 1) - options.first, 1, kMaxStripTokens);
  options.evictable_only = false;
  options.bands = 1;
  options.labels = labels_;
  options.colormap = services_.theme->maps;
  options.preview = context.a->preview;
  return options;
}

void LayerStripPane::draw(ViewContext& context, const Cursor& at) {
  const RunRecord& run = *context.a->run;
  const ImVec2 room = ImGui::GetContentRegionAvail(), origin = ImGui::GetCursorScreenPos();
  const Theme& theme = *services_.theme;
  if (room.x < theme.px(120) || room.y < theme.px(50)) return;
  const TokenSpan span = shown_span(*context.selection, run.n_tokens());
  const AxesKey key{RunKey(context.a), span, at.q, room.x, room.y, theme.scale, theme.dark, context.a->preview};
  if (drawn_ != key) {
    axes_.set(make_axes(context, at, span, room.x, room.y));
    drawn_ = key;
  }
  const Box box = axes_.figure().panel(kPanel)->box;
  const ImVec2 min{origin.x + static_cast<float>(box.x), origin.y + static_cast<float>(box.y)};
  const ImVec2 max{min.x + static_cast<float>(box.w), min.y + static_cast<float>(box.h)};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  axes_.draw(list, origin, 1, theme);  // with the hatches, on which the picture lies
  picture_.ask(*context.a, at.q, span, static_cast<int>(box.w));
  picture_.draw(list, min, max, span);
  ImGui::InvisibleButton("layers", room);
  const bool hovered = ImGui::IsItemHovered();
  draw_marks(context, at, span, min, max);
  handle_mouse(context, at, span, min, max, hovered);
  if (context.a->preview) preview_frame(services_, {min.x - 2, min.y - 2}, {max.x + 2, max.y + 2});
}

void LayerStripPane::hatch_swatch() const {
  const Theme& theme = *services_.theme;
  const FontScope small(theme.fonts.small);
  // Where legend() put it: before the label, lower than a line.
  const ItemRect label = last_item();
  const float h = ImGui::GetTextLineHeight(), side = h * 0.72f, right = label.x - theme.px(5);
  const ImVec2 a{std::floor(right - side * 1.4f), label.y + (h - side) / 2}, b{right, a.y + side};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.PushClipRect(a, b, true);
  for (float x = a.x - side; x < b.x; x += theme.px(4))
    list.AddLine({x, b.y}, {x + side, a.y}, to_imgui(theme.palette.muted), theme.px(1));
  list.PopClipRect();
  services_.items->add("layers.swatch", item_rect(a, b));
}

Figure LayerStripPane::make_axes(const ViewContext& context, const Cursor& at, TokenSpan span, float width,
                                 float height) {
  const RunRecord& run = *context.a->run;
  const FigureStyle s = services_.theme->figure_style(width, height);
  const int n_layers = run.evict_at.n_layers();
  FigureBuilder b(width, height, s);
  const double left = s.label_size + 6 + text_width("00", FontRole::text, s.tick_size) + FigureBuilder::kTickLength + 3;
  const double column = (width - left - 6) / span.size();
  const bool labels = column >= services_.theme->px(kLabelColumn);
  labels_ = labels;
  double label_h = 4;
  const double label_size = std::min(s.tick_size, column * 0.9);
  for (std::int32_t t = span.begin; t < span.end && labels; ++t)
    label_h = std::max(label_h, text_width(token_label(run.pieces[t], kMaxLabel), FontRole::mono, label_size) + 6);
  const double top = std::floor(FigureBuilder::kTickLength + s.tick_size * 1.5);
  const Box box{std::floor(left), top, std::floor(width - left - 6),
                std::max(10.0, std::floor(height - top - label_h - 2))};

  const RetentionGeometry g = run.geometry();
  for (const TokenSpan rule :
       {TokenSpan{0, std::min(g.n_sink, at.q + 1)}, TokenSpan{std::max(g.n_sink, at.q - g.window + 1), at.q + 1}}) {
    const Box part = part_of(box, span, rule);
    if (part.w > 0) b.add(Hatch{part, s.muted, 6, 0.4});
  }
  b.frame(box);
  b.figure().panels.push_back({kPanel, box, 0, 0});
  const double row = box.h / n_layers;
  std::vector<Tick> y;
  for (int l = 0; l < n_layers; l += tick_stride(n_layers, row, s.tick_size * 1.2))
    y.push_back({box.y + (l + 0.5) * row, std::to_string(l)});
  b.y_ticks(box, y);
  b.label("Layer", {s.label_size / 2 + 1, box.centre().y}, Anchor::middle, 90);
  const double need = text_width(std::to_string(span.end), FontRole::text, s.tick_size) * 2 + 12;
  for (const double v : nice_values(span.begin, span.end - 1, std::max(2, static_cast<int>(box.w / need)), true)) {
    const double x = box.x + (v - span.begin + 0.5) / span.size() * box.w;
    b.line({x, box.y}, {x, box.y - FigureBuilder::kTickLength}, s.rule, s.rule_width);
    b.text(std::to_string(std::lround(v)), {x, box.y - FigureBuilder::kTickLength - 1.5}, s.tick_size * 0.9, s.muted,
           Anchor::middle);
  }
  for (std::int32_t t = span.begin; t < span.end && labels; ++t) {
    b.text(token_label(run.pieces[t], kMaxLabel),
           {box.x + (t - span.begin + 0.5) * box.w / span.size(), box.bottom() + 3}, label_size,
           t > at.q ? s.muted : s.ink, Anchor::end, Baseline::middle, 90, FontRole::mono);
  }
  return std::move(b.figure());
}

void LayerStripPane::draw_marks(const ViewContext& context, const Cursor& at, TokenSpan span, ImVec2 min, ImVec2 max) {
  const Theme& theme = *services_.theme;
  const RunRecord& run = *context.a->run;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.PushClipRect(min, max, true);
  const auto x = [&](double t) { return min.x + static_cast<float>((t - span.begin) / span.size()) * (max.x - min.x); };
  const float row = (max.y - min.y) / static_cast<float>(run.evict_at.n_layers());
  const float y = min.y + static_cast<float>(at.layer) * row;
  list.AddRect({min.x, y}, {max.x, y + row}, to_imgui(theme.palette.text), 0, theme.px(1.25f));
  services_.items->add("layers.cell", at.layer, item_rect({min.x, y}, {max.x, y + row}));
  const auto token_mark = [&](int token, Colour colour) {
    if (!span.contains(token)) return;
    const float from = std::floor(x(token)), to = std::max(std::floor(x(token + 1)), from + 1);
    list.AddRect({from, min.y}, {to, max.y}, to_imgui(colour), 0, theme.px(1.25f));
  };
  PinMarks(services_, context, "layers").columns(span, min, max);
  token_mark(context.selection->hovered_token, theme.palette.accent);
  token_mark(at.token, theme.palette.text);
  if (run.prompt_len > 0 && span.contains(run.prompt_len)) {  // where the answer begins
    list.AddLine({x(run.prompt_len), min.y}, {x(run.prompt_len), max.y}, to_imgui(theme.palette.accent), theme.px(2));
  }
  if (span.contains(at.q)) {
    const float playhead = std::floor(x(at.q + 1));
    list.AddLine({playhead, min.y}, {playhead, max.y}, to_imgui(theme.palette.text), theme.px(1.5f));
  }
  if (const TokenSpan brush = context.selection->brush; !brush.empty()) {
    list.AddRectFilled({x(brush.begin), min.y}, {x(brush.end), max.y}, to_imgui(with_alpha(theme.palette.accent, 45)));
    list.AddRect({x(brush.begin), min.y}, {x(brush.end), max.y}, to_imgui(theme.palette.accent));
  }
  draw_hit_marks(theme, context.hits, span, min, {max.x, min.y + theme.px(5)});
  list.PopClipRect();
  services_.items->add("layers.strip", item_rect(min, max));
  tokens_per_pixel_mark(services_, "layers.tokens_per_pixel", span, max.x - min.x,
                        {max.x - theme.px(3), min.y + theme.px(3)});
}

void LayerStripPane::handle_mouse(ViewContext& context, const Cursor& at, TokenSpan span, ImVec2 min, ImVec2 max,
                                  bool hovered) {
  mouse_.handle(context, min, max, hovered);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (!hovered || mouse.x < min.x || mouse.x >= max.x || mouse.y < min.y || mouse.y >= max.y) return;
  const RunRecord& run = *context.a->run;
  const SpanCells cells(span, static_cast<int>(max.x - min.x));
  const int n_layers = run.evict_at.n_layers();
  const int cell = std::clamp(static_cast<int>((mouse.x - min.x) / (max.x - min.x) * static_cast<float>(cells.cells)),
                              0, cells.cells - 1);
  const int layer =
      std::clamp(static_cast<int>((mouse.y - min.y) / (max.y - min.y) * static_cast<float>(n_layers)), 0, n_layers - 1);
  const TokenSpan tokens = cells.tokens(cell);
  context.selection->hovered_token = tokens.begin;
  context.selection->hover_told = true;
  draw_card(run, at.q, layer, tokens);
  if (drag_brush(*context.selection, tokens.begin, hovered)) return;
  if (!ImGui::IsMouseClicked(ImGuiMouseButton_Left)) return;
  context.selection->layer = layer;
  context.selection->token = tokens.begin;
}

void LayerStripPane::draw_card(const RunRecord& run, std::int32_t q, int layer, TokenSpan tokens) {
  const Palette& p = services_.theme->palette;
  const LayerStrip strip = layer_strip(run, q, SpanCells(tokens, 1));
  const float heads = strip.heads[static_cast<std::size_t>(layer)];
  const std::string of = " of " + std::to_string(run.evict_at.n_kv_heads()) + " KV heads keep ";
  std::string text = "layer " + std::to_string(layer) + ": ";
  if (tokens.begin > q) {
    text += "not read yet at query " + std::to_string(q);
  } else if (std::isnan(heads)) {
    text += "always kept: sinks and window";
  } else {
    text += format_number(heads, 3) + of + (tokens.size() > 1 ? "them on average" : "it");
  }
  const HoverCard card(services_);
  if (tokens.size() == 1) {
    draw_text(services_.theme->fonts.bold, p.text,
              "token " + std::to_string(tokens.begin) + " \"" + token_label(run.pieces[tokens.begin], 40) + "\"");
  } else {
    draw_text(services_.theme->fonts.bold, p.text,
              "tokens " + std::to_string(tokens.begin) + "–" + std::to_string(tokens.end - 1));
  }
  text_in(p.text, text);
  services_.items->add_text("layers.card", last_item(), text);
}

}  // namespace kvscope::views
