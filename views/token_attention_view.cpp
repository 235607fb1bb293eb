#include "views/token_attention_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {

void TokenAttentionView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.token_attention", "No run yet",
                "Run a prompt or open a trace to see the attention that the selected token receives.", "Run",
                "run.start");
    return;
  }
  constexpr std::array<std::string_view, 2> kScales = {"Logarithmic", "Linear"};
  segmented(services_, "attention.scale", kScales, {}, scale_);
  const Cursor at = context.cursor_in(*context.a->run);
  if (at.token < 0)
    return note(context, "Select a token to see the attention it receives from later queries in this head.");
  if (context.attention == nullptr) return note(context, "This view needs the engine, which is not available.");
  context.attention->wanted = true;
  if (!answered(context))
    return note(context, context.attention->why_not.empty() ? "Reading ..." : context.attention->why_not);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < services_.theme->px(90) || room.y < services_.theme->px(70)) return;
  draw_plot(context, options_of(context), room);
}

bool TokenAttentionView::answered(const ViewContext& context) {
  const TokenAttention* answer = context.attention != nullptr ? context.attention->answer.get() : nullptr;
  const Cursor at = context.cursor_in(*context.a->run);
  return answer != nullptr && answer->layer == at.layer && answer->tokens.size() == 1 &&
         answer->tokens[0] == at.token && at.token >= 0;
}

std::optional<ViewFigure> TokenAttentionView::figure(const ViewContext& context) const {
  if (!drawable(context.a) || !answered(context)) return std::nullopt;
  ViewFigure figure{options_of(context), {context.a->run}};
  if (const ShownRun* b = b_of(context)) figure.runs.push_back(b->run);
  return figure;
}

void TokenAttentionView::note(const ViewContext& context, const std::string& text) const {
  wrapped_text_in(services_.theme->palette.muted, text);
  services_.items->add_text("attention.note", last_item(), text);
  if (context.a->preview) services_.items->add("preview.badge", last_item());
}

TokenAttentionOptions TokenAttentionView::options_of(const ViewContext& context) const {
  const RunRecord& run = *context.a->run;
  const Cursor at = context.cursor_in(run);
  TokenAttentionOptions options{.attention = context.attention->answer, .kv_head = at.kv_head};
  options.logarithmic = scale_ == 0;
  // The whole run: from the token on. A part of it that is shown elsewhere is shown here.
  const TokenSpan span = shown_span(*context.selection, run.n_tokens());
  if (span.size() < run.n_tokens() && span.end > at.token) {
    options.first = std::max(span.begin, at.token);
    options.count = span.end - options.first;
  }
  options.preview = context.a->preview;
  options.name_a = context.a->label;
  if (const ShownRun* b = b_of(context)) {
    options.preview_b = b->preview;
    options.name_b = b->label;
  }
  return options;
}

const ShownRun* TokenAttentionView::b_of(const ViewContext& context) const {
  if (!drawable(context.b) || !same_shape(*context.a->run, *context.b->run)) return nullptr;
  const Cursor at = context.cursor_in(*context.a->run);
  return common_prefix(*context.a->run, *context.b->run) > at.token ? context.b : nullptr;
}

void TokenAttentionView::draw_plot(ViewContext& context, const TokenAttentionOptions& options, ImVec2 room) {
  const ShownRun* b = b_of(context);
  const Key key{RunKey(context.a), RunKey(b), options, room.x, room.y, services_.theme->scale, services_.theme->dark};
  if (rebuild_.due(key)) {
    std::vector<const RunRecord*> runs = {context.a->run.get()};
    if (b) runs.push_back(b->run.get());
    drawing_.set(token_attention_figure(runs, options, services_.theme->figure_style(room.x, room.y)).figure);
    rebuild_.done();
  }
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  ImGui::InvisibleButton("attention", room);
  handle_mouse(context, options, origin);
  if (options.preview || options.preview_b)
    services_.items->add("preview.badge", item_rect(origin, {origin.x + room.x, origin.y + room.y}));
}

/// Dragging scrubs, what else the mouse does is the timeline's; the position of the selection is a line.
void TokenAttentionView::handle_mouse(ViewContext& context, const TokenAttentionOptions& options, ImVec2 origin) {
  const Panel* panel = drawing_.figure().panel("attention");
  if (panel == nullptr) return;
  const int begin = options.count > 0 ? options.first : options.attention->tokens[0];
  const int end = options.count > 0 ? options.first + options.count : options.attention->n_queries;
  const ImVec2 a{origin.x + static_cast<float>(panel->box.x), origin.y + static_cast<float>(panel->box.y)};
  const ImVec2 b{origin.x + static_cast<float>(panel->box.right()), origin.y + static_cast<float>(panel->box.bottom())};
  services_.items->add("attention.plot", item_rect(a, b));
  const float at = (static_cast<float>(context.q() - begin) + 0.5f) / static_cast<float>(std::max(1, end - begin));
  if (at >= 0 && at <= 1) {
    const float x = std::floor(a.x + at * (b.x - a.x));
    ImGui::GetWindowDrawList()->AddLine({x, a.y}, {x, b.y}, to_imgui(services_.theme->palette.accent),
                                        services_.theme->px(1.5f));
  }
  const bool active = ImGui::IsItemActive();
  mouse_.handle_part(context, a, b, ImGui::IsItemHovered(), {begin, end});
  if (!active || b.x <= a.x) return;
  const float share = (ImGui::GetIO().MousePos.x - a.x) / (b.x - a.x);
  const int q = begin + static_cast<int>(share * static_cast<float>(end - begin));
  context.selection->q = std::clamp(q, 0, context.a->run->n_tokens() - 1);
}

}  // namespace kvscope::views
