#include "views/token_strip_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "views/figure/colormap.h"
#include "views/figure/figure_builder.h"
#include "views/figure/token_strip_figure.h"
#include "views/widgets/context_menu.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/strip_legend.h"

namespace kvscope::views {
namespace {

constexpr float kChipPad = 2.5f, kChipGap = 1, kLineGap = 5, kGutter = 46;  // design pixels
constexpr float kRoomForLegend = 84;                                        // of it and two lines of text

constexpr std::array<std::string_view, 2> kRowChoices = {"Text", "Layers"};
constexpr std::array<std::string_view, 2> kRowHints = {
    "Show the prompt and the answer as text, coloured for one head.",
    "Show layers as rows and tokens as columns: how many KV heads of the layer keep the token at this query."};
constexpr std::array<std::string_view, 4> kModes = {"State", "Score", "Heads keeping", "Oracle"};
constexpr std::array<std::string_view, 4> kModeHints = {
    "Colour by the token's state in this head at this query: sink, window, kept or evicted.",
    "Colour by the raw score in this head, 2nd to 98th percentile. Outlined: no score.",
    "Colour by how many KV heads of this layer keep the token. Outlined: sinks and window, which are always kept.",
    "Colour by the policy's choice against the oracle's. The oracle holds as many tokens as this head keeps at this "
    "query, or as many as the run specifies."};

/// "window; evicted at 2391, 64 queries old", and only the latter where the state is the same.
std::string state_line(const HeadAtQuery& head, std::int32_t t) {
  const std::string state(state_name(head.state(t))), life = life_line(*head.run, head.layer, head.kv_head, t);
  return life.starts_with(state) ? life : state + "; " + life;
}

}  // namespace

void TokenStripView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.token_strip", "No tokens yet",
                "Run a prompt or open a trace to see each token here, as it is read or written.", "Run", "run.start");
    return;
  }
  const RunRecord& run = *context.a->run;
  const Cursor at = context.cursor_in(run);
  if (rebuild_scores_.due({RunKey(context.a), RunKey(context.b), at.layer, at.kv_head})) {
    scores_ = score_range(run, at.layer, at.kv_head);
    common_ = drawable(context.b) ? common_prefix(run, *context.b->run) : 0;
    rebuild_scores_.done();
  }
  draw_header(context);
  // In a small window the text comes before the legend: the hint of each token has the same words.
  if (context.selection->layers || ImGui::GetContentRegionAvail().y >= services_.theme->px(kRoomForLegend))
    draw_legend(context);
  if (context.selection->layers) {
    layers_.draw(context, at);
  } else {
    draw_tokens(context, at);
  }
}

// The text has no place on paper: its tokens become a strip, the selected head's row and below it B's, as the underlines.
std::optional<ViewFigure> TokenStripView::figure(const ViewContext& context) const {
  if (!drawable(context.a)) return std::nullopt;
  const RunRecord& run = *context.a->run;
  const Cursor at = context.cursor_in(run);
  if (context.selection->layers) return ViewFigure{layers_.figure(context, at), {context.a->run}};
  TokenStripOptions options;
  options.q = at.q;
  options.first = std::min(shown_first_, at.q);  // tokens after q are not read yet
  options.count = std::clamp(shown_end_ > 0 ? shown_end_ - options.first : run.n_tokens(), 1, kMaxStripTokens);
  options.evictable_only = false;
  options.layer = at.layer;
  options.kv_head = at.kv_head;
  options.colour = context.selection->colour;
  options.colormap = services_.theme->maps;
  options.preview = context.a->preview;
  if (!b_comparable(context) || !same_shape(run, *context.b->run)) return ViewFigure{options, {context.a->run}};
  options.with_b = true;
  options.preview_b = context.b->preview;
  return ViewFigure{options, {context.a->run, context.b->run}};
}

bool TokenStripView::b_comparable(const ViewContext& context) {
  if (!drawable(context.b)) return false;
  const RunRecord &a = *context.a->run, &b = *context.b->run;
  const int common = common_prefix(a, b);
  return common > 0 && (context.q() < common || !tokens_part(a, b));
}

void TokenStripView::draw_header(ViewContext& context) {
  const RunRecord& run = *context.a->run;
  const Theme& theme = *services_.theme;
  std::string title = head_title(context);
  const std::string label = context.b != nullptr ? context.a->label + ": " : "";
  if (context.selection->layers) {
    title = label + "KV heads keeping each token, by layer";
  } else if (context.selection->colour == ColourMode::kept_heads) {
    title = label + "Layer " + std::to_string(context.cursor_in(run).layer) + ", all " +
            std::to_string(run.evict_at.n_kv_heads()) + " KV heads";
  }
  draw_text(theme.fonts.bold, theme.palette.text, title);
  services_.items->add_text("strip.title", last_item(), title);
  ImGui::SameLine();
  text_in(theme.palette.muted, "at query " + std::to_string(context.q()) + " of " + std::to_string(run.n_tokens() - 1));
  if (!context.selection->brush.empty()) {
    ImGui::SameLine(0, theme.px(18));
    const std::string line = brush_.line(context);
    text_in(theme.palette.accent, line);
    services_.items->add_text("strip.brush", last_item(), line);
  }
  if (context.a->preview) preview_badge(services_);
  int rows = context.selection->layers ? 1 : 0;
  if (segmented(services_, "strip.rows", kRowChoices, kRowHints, rows)) context.selection->layers = rows == 1;
  if (context.selection->layers) return;
  ImGui::SameLine(0, theme.px(18));
  int mode = static_cast<int>(context.selection->colour);
  if (segmented(services_, "strip.mode", kModes, kModeHints, mode))
    context.selection->colour = static_cast<ColourMode>(mode);
}

void TokenStripView::draw_legend(const ViewContext& context) {
  const ColourMode colour = context.selection->layers ? ColourMode::kept_heads : context.selection->colour;
  std::vector<Swatch> swatches = strip_swatches(*services_.theme, *context.a->run, colour, context.q(), scores_);
  if (b_comparable(context) && context.selection->colour == ColourMode::state && !context.selection->layers) {
    const std::string at = context.q() < common_ ? "" : ", at its last query " + std::to_string(common_ - 1);
    swatches.push_back({{0, 0, 0, 0}, "underline: " + context.b->label + at, false, false});
  }
  legend(services_, swatches);
  for (const Swatch& swatch : swatches)
    services_.items->add_text("strip.legend." + swatch.label, last_item(), swatch.label);
  if (context.selection->layers) layers_.hatch_swatch();  // the last is what the rule keeps
}

float TokenStripView::line_height() const { return lines_.font_size() + services_.theme->px(kLineGap); }

void TokenStripView::draw_tokens(ViewContext& context, const Cursor& at) {
  const Theme& theme = *services_.theme;
  const RunRecord& run = *context.a->run;
  ImGui::BeginChild("tokens", {0, 0}, false);
  const ImVec2 pane_min = ImGui::GetWindowPos(), pane{ImGui::GetWindowSize()};
  const float gutter = theme.px(kGutter);
  const TokenLines::Measured measured = lines_.measure(theme, context.a);
  if (!measured.same_text) away_ = live_ = false;
  if (measured.other) other_tokens_ = true;
  const float line_height = this->line_height();
  const ImVec2 size{ImGui::GetContentRegionAvail().x, pane.y};
  // In a pane of another size the same text is elsewhere: what was looked at stays at its height.
  const bool resized = (size.x != pane_.x || size.y != pane_.y) && lines_.are_broken();
  // What was brought into sight in the frame before is not there yet: after a start the pane changes in its second frame.
  const bool under_way = scrolled_ && brought_ < lines_.n_tokens();
  const int held = !resized || followed_ ? -1 : under_way ? brought_ : looked_at(context, line_height);
  const float at_line = held >= 0 ? static_cast<float>(lines_.line_of(held)) * line_height : 0;
  const float height = under_way ? brought_height_ : at_line - scroll_y_;
  lines_.break_at(run, std::max(theme.px(60), size.x - gutter - theme.px(12)), 2 * theme.px(kChipPad),
                  theme.px(kChipGap));
  pane_ = size;
  if (held >= 0) scroll_y_ = ImGui::GetScrollY();  // the user has not scrolled, whatever the new size did
  scroll_to_selection(context, line_height);
  if (held >= 0 && !scrolled_ && !followed_) {
    const float least = std::max(0.f, pane.y - 2 * line_height);
    bring_to(held, std::min(height, least));
  }
  const HeadAtQuery head(run, at.layer, at.kv_head, at.q);
  b_.reset();
  if (b_comparable(context)) {
    const Cursor b = context.cursor_in(*context.b->run);
    b_.emplace(*context.b->run, b.layer, b.kv_head, b.q);
  }

  const ImVec2 top = ImGui::GetCursorScreenPos(), origin{top.x + gutter, top.y + theme.px(5)};
  const int first = std::max(0, static_cast<int>((pane_min.y - origin.y) / line_height));
  const int last = std::min(n_lines() - 1, static_cast<int>((pane_min.y + pane.y - origin.y) / line_height));
  shown_first_ = lines_.begin(std::min(first, n_lines() - 1));
  shown_end_ = last + 1 < n_lines() ? lines_.begin(std::max(last + 1, 0)) : run.n_tokens();
  int hovered = -1;
  if (ImGui::IsWindowHovered()) hovered = token_at(origin, ImGui::GetIO().MousePos);
  for (int line = first; line <= last; ++line) draw_line(context, head, line, origin);
  handle_mouse(context, hovered);
  if (hovered >= 0) draw_hover_card(head, hovered);
  ImGui::Dummy({1, n_lines() * line_height + theme.px(12)});
  if (context.a->preview) {
    preview_frame(services_, {pane_min.x + 1, pane_min.y + 1}, {pane_min.x + pane.x - 2, pane_min.y + pane.y - 2});
  }
  ImGui::EndChild();
}

void TokenStripView::bring_to(int token, float height) {
  ImGui::SetScrollY(std::max(0.f, static_cast<float>(lines_.line_of(token)) * line_height() - height));
  brought_ = token, brought_height_ = height;
  scrolled_ = true;
}

/// What is selected, scrubbed to or zoomed to is scrolled into sight, and so is the end of a run that comes or goes on; a
/// person who scrolled away from the scrub position, or from that end, is left there.
void TokenStripView::scroll_to_selection(const ViewContext& context, float line_height) {
  const RunRecord& run = *context.a->run;
  const Cursor at = context.cursor_in(run);
  const float top = ImGui::GetScrollY(), height = ImGui::GetWindowSize().y;
  const auto is_visible = [&](int token) {
    const float y = static_cast<float>(lines_.line_of(token)) * line_height;
    return y >= top && y + line_height <= top + height;
  };
  const auto bring = [&](int token) {
    if (token < 0 || is_visible(token)) return false;
    bring_to(token, height * 0.4f);
    return true;
  };
  // Following an end goes down: what goes up meanwhile is a person.
  const bool by_hand =
      scroll_y_ >= 0 && (followed_ ? top < scroll_y_ - 0.5f : !scrolled_ && std::abs(top - scroll_y_) > 0.5f);
  const bool on_its_way = followed_;  // a scroll bar that appeared has broken lines anew: the end is further down
  scrolled_ = followed_ = false;
  const TokenSpan span = shown_span(*context.selection, run.n_tokens());
  const std::int32_t q = context.selection->q ? at.q : -1;
  const bool live = run.status == RunStatus::running;
  const bool came = other_tokens_ && !live && !live_;
  if (by_hand)
    away_ = shown_q_ >= 0 ? !is_visible(std::min(shown_q_, run.n_tokens() - 1))
                          : top < ImGui::GetScrollMaxY() - line_height;
  if ((q < 0) != (shown_q_ < 0)) away_ = false;
  if (at.token >= 0 && at.token != shown_token_) {
    if (bring(at.token) && q < 0) away_ = true;
  } else if (q < 0 && shown_q_ >= 0) {
    bring(run.n_tokens() - 1);  // back to the live edge
  } else if (q >= 0 && (q != shown_q_ || came)) {
    if (!away_) bring(q);
  } else if (span != span_ && !context.selection->view.empty() &&
             (shown_end_ <= span.begin || shown_first_ >= span.end)) {
    if (bring(span.begin) && q < 0) away_ = true;
  } else if (q < 0 && (live || live_ || came || on_its_way) && !away_ && !is_visible(run.n_tokens() - 1)) {
    ImGui::SetScrollY(static_cast<float>(n_lines()) * line_height);
    followed_ = true;
  }
  live_ = live, other_tokens_ = false;
  shown_token_ = at.token, shown_q_ = q, span_ = span, scroll_y_ = top;
}

int TokenStripView::looked_at(const ViewContext& context, float line_height) const {
  const Cursor at = context.cursor_in(*context.a->run);
  const int last = lines_.n_tokens() - 1;
  for (const int token : {at.token, static_cast<int>(context.selection->q ? at.q : last)}) {
    const float y = static_cast<float>(lines_.line_of(token)) * line_height;
    if (token >= 0 && y >= scroll_y_ && y + line_height <= scroll_y_ + pane_.y) return token;
  }
  return std::clamp(shown_first_, 0, last);
}

int TokenStripView::token_at(ImVec2 origin, ImVec2 mouse) const {
  return lines_.token_at(static_cast<int>(std::floor((mouse.y - origin.y) / line_height())), mouse.x - origin.x);
}

void TokenStripView::draw_line(ViewContext& context, const HeadAtQuery& head, int line, ImVec2 origin) {
  const Theme& theme = *services_.theme;
  const float y = origin.y + static_cast<float>(line) * line_height();
  ImFont* small = theme.fonts.small ? theme.fonts.small : lines_.font();
  const std::string number = std::to_string(lines_.begin(line));
  const ImVec2 at{origin.x - theme.px(10) - text_width(small, number.c_str()),
                  y + (lines_.font_size() - font_size(small)) / 2};
  ImGui::GetWindowDrawList()->AddText(small, font_size(small), at, to_imgui(theme.palette.faint), number.c_str());
  for (int t = lines_.begin(line); t < lines_.end(line); ++t) {
    draw_token(context, head, t, {origin.x + lines_.x(t), y});
  }
}

TokenStripView::Chip TokenStripView::state_chip(const HeadAtQuery& head, int token) const {
  const Theme& theme = *services_.theme;
  const TokenState state = head.state(token);
  if (state == TokenState::future) return {{0, 0, 0, 0}, theme.palette.faint};
  if (state == TokenState::undecided) return {{0, 0, 0, 0}, theme.palette.muted, false, true};
  const Colour fill = soft(theme, state_colour(state, theme.dark));
  if (state == TokenState::evicted) return {fill, theme.palette.muted, true};
  return {fill, ink_on(fill)};
}

TokenStripView::Chip TokenStripView::value_chip(double fraction) const {
  if (std::isnan(fraction)) return {{0, 0, 0, 0}, services_.theme->palette.muted, false, true};
  const Colour fill = sample(services_.theme->maps, fraction);
  return {fill, ink_on(fill)};
}

TokenStripView::Chip TokenStripView::chip(ColourMode mode, const HeadAtQuery& head, int token) const {
  const Theme& theme = *services_.theme;
  const TokenState state = head.state(token);
  if (mode == ColourMode::state || state == TokenState::future) return state_chip(head, token);
  if (mode == ColourMode::score) {
    return value_chip((score_at(*head.run, head.layer, head.kv_head, token) - scores_.lo) / (scores_.hi - scores_.lo));
  }
  if (mode == ColourMode::kept_heads) {
    if (!head.chosen(token)) return value_chip(NAN);
    return value_chip(static_cast<double>(kept_heads(*head.run, head.layer, token, head.q)) /
                      head.run->evict_at.n_kv_heads());
  }
  const Verdict verdict = head.verdict(token);
  if (verdict == Verdict::none) return {{0, 0, 0, 0}, theme.palette.muted};
  const Colour fill = soft(theme, verdict_colour(verdict, theme.dark));
  return {fill, ink_on(fill), state == TokenState::evicted};
}

void TokenStripView::draw_token(ViewContext& context, const HeadAtQuery& head, int token, ImVec2 min) {
  const Theme& theme = *services_.theme;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float size = lines_.font_size();
  const ImVec2 max{min.x + lines_.width(token), min.y + size + theme.px(1)};
  const Chip c = chip(context.selection->colour, head, token);
  if (c.fill.a != 0) list.AddRectFilled(min, max, to_imgui(c.fill), theme.px(2.5f));
  if (c.outlined) list.AddRect(min, max, to_imgui(theme.palette.border), theme.px(2.5f));
  const std::string& text = lines_.text(token);
  list.AddText(lines_.font(), size, {min.x + theme.px(kChipPad), min.y}, to_imgui(c.ink), text.data(),
               text.data() + text.size());
  if (c.struck) {
    const float y = std::floor(min.y + size * 0.56f);
    list.AddLine({min.x + theme.px(1), y}, {max.x - theme.px(1), y}, to_imgui(with_alpha(c.ink, 120)), theme.px(1));
  }
  if (b_ && token < common_) {  // B's fate of the same token
    const Colour under = state_colour(b_->state(token), theme.dark);
    const float dash = context.b->preview ? theme.px(3) : max.x - min.x, top = max.y + theme.px(0.5f);
    for (float x = min.x; x < max.x; x += dash * 1.7f) {  // broken: not measured
      list.AddRectFilled({x, top}, {std::min(x + dash, max.x), top + theme.px(2.5f)}, to_imgui(under));
    }
  }
  if (token > 0 && token == head.run->prompt_len) {  // where the answer begins
    const float x = min.x - theme.px(1);
    list.AddLine({x, min.y - theme.px(2)}, {x, max.y + theme.px(2)}, to_imgui(theme.palette.accent), theme.px(2));
  }
  if (context.hits != nullptr && std::ranges::binary_search(*context.hits, token)) {
    list.AddRect({min.x, min.y}, {max.x, max.y}, to_imgui(theme.palette.warn), theme.px(2.5f), theme.px(1.5f));
    services_.items->add("strip.hit", token, item_rect(min, max));
  }
  if (context.selection->brush.contains(token))
    list.AddRectFilled({min.x - 1, max.y}, {max.x + 1, max.y + theme.px(2.5f)}, to_imgui(theme.palette.accent));
  if (!context.selection->view.empty() && !span_.contains(token)) {  // the other views do not show it
    list.AddRectFilled(min, max, to_imgui(with_alpha(theme.palette.panel, 150)), theme.px(2.5f));
  }
  const bool selected = token == context.selection->token;
  if (selected || token == context.selection->hovered_token) {
    list.AddRect({min.x - 1, min.y - 1}, {max.x + 1, max.y + 1},
                 to_imgui(selected ? theme.palette.text : theme.palette.accent), theme.px(3), theme.px(1.75f));
  }
  PinMarks(services_, context, "strip").token(token, min, max);
  services_.items->add("strip.token", token, item_rect(min, max));
  if (c.outlined) services_.items->add("strip.outlined", token, item_rect(min, max));
  if (b_ && token < common_) services_.items->add("strip.underlined", token, item_rect(min, max));
  if (context.selection->colour == ColourMode::state && head.state(token) == TokenState::unread)
    services_.items->add("strip.unread", token, item_rect(min, max));
  if (context.selection->colour == ColourMode::oracle) {
    constexpr const char* kItems[] = {"strip.unjudged", "strip.kept_rightly", "strip.kept_wrongly", "strip.missed",
                                      "strip.dropped_rightly"};
    services_.items->add(kItems[static_cast<std::size_t>(head.verdict(token))], token, item_rect(min, max));
  }
}

void TokenStripView::handle_mouse(ViewContext& context, int hovered) {
  draw_token_menu(services_, context);
  if (!ImGui::IsWindowHovered()) return;
  context.selection->hovered_token = hovered;
  context.selection->hover_told = true;
  if (drag_brush(*context.selection, hovered, true)) return;
  if (hovered >= 0 && ImGui::IsMouseClicked(ImGuiMouseButton_Right)) {
    open_token_menu(*context.selection, hovered);
    shown_token_ = hovered;
  }
  if (hovered >= 0 && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
    context.selection->token = context.selection->token == hovered ? -1 : hovered;
    shown_token_ = context.selection->token;  // it is under the mouse: do not scroll
  }
}

void TokenStripView::draw_hover_card(const HeadAtQuery& head, int token) {
  const Palette& p = services_.theme->palette;
  const RunRecord& run = *head.run;
  const HoverCard card(services_);
  draw_text(services_.theme->fonts.bold, p.text, identity_line(run, head.layer, head.kv_head, token));
  const std::string state = state_line(head, token);
  text_in(p.text, state);
  services_.items->add_text("strip.card", last_item(), state);
  const float mass = mass_at(run, head.layer, head.kv_head, token);
  const std::string partial = run.oracle_horizon < run.n_tokens() ? " (partial)" : "";
  text_in(p.muted, "score: " + score_text(run, head.layer, head.kv_head, token) + " · future attention mass " +
                       (std::isnan(mass) ? "unknown" : format_number(mass, 3) + partial));
  const Verdict verdict = head.verdict(token);
  if (verdict != Verdict::none)
    text_in(verdict == Verdict::missed ? p.bad : p.muted,
            "at query " + std::to_string(head.q) + ": " + std::string(verdict_name(verdict)));
  text_in(p.muted, std::to_string(kept_heads(run, head.layer, token, head.q)) + " of " +
                       std::to_string(run.evict_at.n_kv_heads()) + " KV heads of this layer keep it");
}

}  // namespace kvscope::views
