#include "views/unseen_tokens_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/hit_marks.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

constexpr std::int64_t kCheapSum =
    1'000'000;  // shares added up in a frame, some milliseconds; more are for another thread

constexpr const char* kUnseenDefinition =
    "Attention under a full cache: the softmax over all tokens up to the query, mean over the query heads of a KV head. The "
    "missing part is on tokens that the head has evicted by this query.";

}  // namespace

void UnseenTokensView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.unseen_tokens", "No run yet",
                "Run a prompt or open a trace to see the attention that a query would give evicted tokens.", "Run",
                "run.start");
    return;
  }
  if (context.query_attention != nullptr) context.query_attention->wanted = true;
  prepare(context);
  draw_header(context);
  if (!why_none(context).empty()) return;
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const auto px = [this](float points) { return services_.theme->px(points); };
  if (room.x < px(90) || room.y < px(70)) return too_little_room(services_, "bars");
  if (room.x >= px(700)) {  // beside it
    const float list = std::min(px(280), room.x * 0.3f), picture = room.x - list - px(12);
    draw_picture(context, {picture, room.y});
    ImGui::SameLine(0, px(12));
    ImGui::BeginGroup();
    list_.draw(context, *unseen_, missing_, {list, room.y});
    return ImGui::EndGroup();
  }
  const float list = room.y < px(240) ? 0 : std::clamp(room.y * 0.3f, px(80), px(200));
  draw_picture(context, {room.x, room.y - (list > 0 ? list + ImGui::GetStyle().ItemSpacing.y : 0)});
  if (list > 0) list_.draw(context, *unseen_, missing_, {room.x, list});
}

HeadScope UnseenTokensView::scope_of(const ViewContext& context) {
  const Cursor at = context.cursor_in(*context.a->run);
  switch (context.selection->unseen_heads) {
    case UnseenHeads::one:
      return {at.layer, at.kv_head};
    case UnseenHeads::layer:
      return {at.layer, -1};
    case UnseenHeads::all:
      break;
  }
  return {};
}

std::shared_ptr<const QueryAttention> UnseenTokensView::answer_of(const ViewContext& context) {
  if (context.query_attention == nullptr || !context.query_attention->answer) return nullptr;
  const QueryAttention& answer = *context.query_attention->answer;
  const RunRecord& run = *context.a->run;
  const bool fits = answer.n_layers == run.evict_at.n_layers() && answer.n_kv_heads == run.evict_at.n_kv_heads() &&
                    answer.n_tokens >= 1 && answer.n_tokens <= run.n_tokens();
  return fits ? context.query_attention->answer : nullptr;
}

UnseenTokensOptions UnseenTokensView::options_of(const ViewContext& context, Unseen unseen) {
  UnseenTokensOptions options{.unseen = std::move(unseen), .whole = context.selection->unseen_whole};
  // A part of the run that is shown elsewhere is shown here, as far as the query has it.
  const int n = context.a->run->n_tokens(), end = options.unseen->query + 1;
  const TokenSpan span = shown_span(*context.selection, n);
  if (span.size() < n && span.begin < end)
    options.first = span.begin, options.count = std::min<int>(span.end, end) - span.begin;
  options.preview = context.a->preview;
  return options;
}

void UnseenTokensView::prepare(const ViewContext& context) {
  const Subject subject{RunKey(context.a), answer_of(context), scope_of(context)};
  if (!subject.attention || unseen_of_ != context.a->run) unseen_ = nullptr;
  if (!subject.attention) return;
  const auto make = [run = context.a->run, attention = subject.attention, scope = subject.scope]() -> Unseen {
    return std::make_shared<const UnseenAttention>(unseen_attention(*run, *attention, scope));
  };
  if (std::ssize(subject.attention->probability) > kCheapSum) {
    if (const auto unseen = debounced_.of(subject, make)) take(context, subject, *unseen);
  } else if (rebuild_unseen_.due(subject, unseen_ == nullptr)) {
    take(context, subject, make());
    rebuild_unseen_.done();
  }
}

void UnseenTokensView::take(const ViewContext& context, const Subject& subject, Unseen unseen) {
  if (unseen == unseen_) return;
  unseen_ = std::move(unseen), unseen_of_ = context.a->run, subject_ = subject;
  sentence_ = unseen_sentence(*unseen_of_, *unseen_);
  missing_ = most_missing(*unseen_, UnseenList::kMost);
}

std::string UnseenTokensView::why_none(const ViewContext& context) const {
  if (context.query_attention == nullptr) return "This view needs the engine, which is not available.";
  if (!unseen_) {
    if (!context.query_attention->why_not.empty()) return context.query_attention->why_not;
    return answer_of(context) ? "Adding up ..." : "Reading ...";
  }
  return unseen_->n_heads == 0
             ? "This layer attends to its window by the model's design: no policy evicts here. Choose "
               "another head, or all heads."
             : "";
}

std::optional<ViewFigure> UnseenTokensView::figure(const ViewContext& context) const {
  if (!drawable(context.a)) return std::nullopt;
  const Subject subject{RunKey(context.a), answer_of(context), scope_of(context)};
  if (!subject.attention) return std::nullopt;
  Unseen unseen = unseen_;
  if (!unseen || !(subject == subject_))
    unseen =
        std::make_shared<const UnseenAttention>(unseen_attention(*context.a->run, *subject.attention, subject.scope));
  if (unseen->n_heads == 0) return std::nullopt;
  return ViewFigure{options_of(context, unseen), {context.a->run}};
}

/// Whose attention, the scale, and the sentence.
void UnseenTokensView::draw_header(ViewContext& context) {
  constexpr std::array<std::string_view, 3> kScopes = {"Head", "Layer", "All heads"};
  constexpr std::array<std::string_view, 3> kHints = {"The selected head", "Mean over the heads of the selected layer",
                                                      "Mean over the heads of all layers"};
  int scope = static_cast<int>(context.selection->unseen_heads);
  if (segmented(services_, "unseen.heads", kScopes, kHints, scope))
    context.selection->unseen_heads = static_cast<UnseenHeads>(scope);
  if (line_button(
          services_, "unseen.whole", "Full scale",
          "Off: the axis ends at the greatest bar outside sinks and window, and taller bars are cut. On: it goes up to the "
          "greatest bar.",
          context.selection->unseen_whole))
    context.selection->unseen_whole = !context.selection->unseen_whole;
  if (context.a->preview) preview_badge(services_);
  const std::string why = why_none(context);
  if (!why.empty()) {
    wrapped_text_in(services_.theme->palette.muted, why);
    return services_.items->add_text("unseen.note", last_item(), why);
  }
  // The last answer stays until the next is there.
  const bool is_behind = unseen_->query != context.q();
  const std::string text = is_behind ? "Reading query " + std::to_string(context.q()) + " ... " + sentence_ : sentence_;
  const float width = ImGui::GetContentRegionAvail().x;
  lines_of_text(services_, services_.theme->palette.text, text, width < services_.theme->px(420) ? 3 : 2);
  services_.items->add_text("unseen.sentence", last_item(), text);
}

void UnseenTokensView::draw_picture(ViewContext& context, ImVec2 room) {
  const Key key{RunKey(context.a),      options_of(context, unseen_), room.x, room.y,
                services_.theme->scale, services_.theme->dark};
  if (rebuild_.due(key, drawn_of_ != context.a->run)) {
    drawing_.set(
        unseen_tokens_figure(*context.a->run, key.options, services_.theme->figure_style(room.x, room.y)).figure);
    drawn_ = key.options, drawn_of_ = context.a->run;
    rebuild_.done();
  }
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  ImGui::InvisibleButton("unseen", room);
  frame_focused_item();
  if (drawn_.preview) services_.items->add("preview.badge", last_item());
  const bool hovered = ImGui::IsItemHovered();
  handle_bars(context, origin, hovered);
  handle_map(context, origin, hovered);
}

/// A click selects the token, of several the one with the most attention; what else the mouse does is the timeline's.
void UnseenTokensView::handle_bars(ViewContext& context, ImVec2 origin, bool hovered) {
  const Panel* panel = drawing_.figure().panel("bars");
  if (panel == nullptr) return;
  const ImVec2 a{origin.x + static_cast<float>(panel->box.x), origin.y + static_cast<float>(panel->box.y)};
  const ImVec2 b{origin.x + static_cast<float>(panel->box.right()), origin.y + static_cast<float>(panel->box.bottom())};
  services_.items->add("unseen.bars", item_rect(a, b));
  const SpanCells bars = unseen_bars(drawn_, panel->box.w);
  draw_hit_marks(*services_.theme, context.hits, bars.span, a, {b.x, a.y + services_.theme->px(5)});
  tokens_per_pixel_mark(services_, "unseen.tokens_per_pixel", bars.span, b.x - a.x,
                        {b.x - services_.theme->px(3), a.y + services_.theme->px(6)});
  const float pitch = (b.x - a.x) / static_cast<float>(bars.cells);
  const int selected = context.cursor_in(*context.a->run).token;
  if (bars.span.contains(selected)) {
    const float x = a.x + pitch * static_cast<float>(bars.of(selected));
    ImGui::GetWindowDrawList()->AddRect({std::floor(x) - 1, a.y}, {std::ceil(x + pitch) + 1, b.y},
                                        to_imgui(services_.theme->palette.accent));
  }
  mouse_.handle_part(context, a, b, hovered, bars.span);
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (!hovered || !panel->box.contains({mouse.x - origin.x, mouse.y - origin.y})) return;
  const TokenSpan tokens = bars.tokens(std::clamp(static_cast<int>((mouse.x - a.x) / pitch), 0, bars.cells - 1));
  std::int32_t most = tokens.begin;
  const auto attention = [this](std::int32_t t) {
    return drawn_.unseen->held[static_cast<std::size_t>(t)] + drawn_.unseen->evicted[static_cast<std::size_t>(t)];
  };
  for (std::int32_t t = tokens.begin; t < tokens.end; ++t)
    if (attention(t) > attention(most)) most = t;
  context.selection->hovered_token = most;
  context.selection->hover_told = true;
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) context.selection->token = most;
  draw_card(context, tokens);
}

void UnseenTokensView::draw_card(const ViewContext& context, TokenSpan tokens) const {
  const UnseenAttention& unseen = *drawn_.unseen;
  double held = 0, evicted = 0;
  for (std::int32_t t = tokens.begin; t < tokens.end; ++t)
    held += unseen.held[static_cast<std::size_t>(t)], evicted += unseen.evicted[static_cast<std::size_t>(t)];
  const HoverCard card(services_);
  const Colour muted = services_.theme->palette.muted;
  const std::string name = tokens.size() == 1
                               ? token_words(*context.a->run, tokens.begin)
                               : "tokens " + std::to_string(tokens.begin) + " to " + std::to_string(tokens.end - 1);
  ImGui::TextUnformatted(name.c_str());
  text_in(muted, unseen_heads_text(unseen) + ": " + share_words(held + evicted) + " of the attention, " +
                     share_words(evicted) + " on evicted tokens");
  if (tokens.size() == 1 && unseen.n_heads > 1)
    text_in(muted, "evicted in " + std::to_string(unseen.heads_without[static_cast<std::size_t>(tokens.begin)]) +
                       " of " + std::to_string(unseen.n_heads) + " heads");
}

/// A click goes to the head.
void UnseenTokensView::handle_map(ViewContext& context, ImVec2 origin, bool hovered) {
  const Panel* panel = drawing_.figure().panel("missing");
  if (panel == nullptr) return;
  const auto place = [&](const Box& box) {
    const float x = origin.x + static_cast<float>(box.x), y = origin.y + static_cast<float>(box.y);
    return item_rect({x, y}, {x + static_cast<float>(box.w), y + static_cast<float>(box.h)});
  };
  for (int layer = 0; layer < panel->rows; ++layer)
    for (int head = 0; head < panel->columns; ++head)
      services_.items->add("unseen.head", layer, head, place(panel->cell(layer, head)));
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const auto cell = panel->cell_at({mouse.x - origin.x, mouse.y - origin.y});
  if (!hovered || !cell) return;
  const auto [layer, head] = *cell;
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) context.selection->layer = layer, context.selection->kv_head = head;
  const float missing = drawn_.unseen->missing[static_cast<std::size_t>(layer * panel->columns + head)];
  const HoverCard card(services_);
  const std::string name = "L" + std::to_string(layer) + " H" + std::to_string(head) + ": ";
  ImGui::TextUnformatted(
      (name + (std::isnan(missing) ? "attends to its window by the model's design" : share_words(missing) + " missing"))
          .c_str());
  ImGui::PushTextWrapPos(services_.theme->px(340));
  text_in(services_.theme->palette.muted, kUnseenDefinition);
  ImGui::PopTextWrapPos();
}

}  // namespace kvscope::views
