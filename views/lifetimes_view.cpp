#include "views/lifetimes_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/figure_builder.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

/// Lifetimes judged in a frame, some 10 ms; more are for another thread.
constexpr std::int64_t kLivesAtOnce = 1 << 13;

constexpr const char* kLifeCostHint =
    "Tokens whose eviction cost most first. Cost: the future mass of an evicted token, which is the mean attention that it "
    "receives from each later query under a full cache.";

}  // namespace

void LifetimesView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.lifetimes", "No lifetimes yet",
                "Run a prompt or open a trace to see how long a head keeps each token.", "Run", "run.start");
    return;
  }
  const RunRecord& run = *context.a->run;
  const LifetimesOptions options = options_of(context);
  facts_ = facts_of(*context.a, options);
  draw_header(context, options);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < services_.theme->px(90) || room.y < services_.theme->px(50))
    return too_little_room(services_, "lifetimes");
  if (run.queries() == 0) return;
  if (facts_)
    build(context, {RunKey(context.a), facts_, options, room.x, room.y, services_.theme->scale, services_.theme->dark});
  if (!facts_ || lives_.empty()) return ImGui::Dummy(room);
  draw_picture(context, room);
}

/// As the window shows it: what is marked, and of that the rows that were zoomed to.
LifetimesOptions LifetimesView::options_of(const ViewContext& context) {
  const RunRecord& run = *context.a->run;
  const Selection& selection = *context.selection;
  const Cursor at = context.cursor_in(run);
  LifetimesOptions options{.layer = at.layer, .kv_head = at.kv_head, .preview = context.a->preview};
  options.order = selection.lifetimes.order;
  if (options.order == LifeOrder::cost && !has_cost(run)) options.order = LifeOrder::position;
  const TokenSpan brush{std::max(0, selection.brush.begin), std::min(selection.brush.end, run.queries())};
  if (!brush.empty()) options.token = brush.begin, options.n_tokens = brush.size();
  const int n_rows = brush.empty() ? run.queries() : brush.size(), n = run.n_tokens();
  const TokenSpan rows = shown_life_rows(selection, std::max(1, n_rows)), queries = shown_span(selection, n);
  if (rows.size() < n_rows) options.row = rows.begin, options.n_rows = rows.size();
  if (queries.size() < n) options.first = queries.begin, options.count = queries.size();
  return options;
}

std::optional<ViewFigure> LifetimesView::figure(const ViewContext& context) const {
  if (!drawable(context.a) || context.a->run->queries() == 0) return std::nullopt;
  return ViewFigure{options_of(context), {context.a->run}};
}

bool LifetimesView::Key::same_lives(const Key& other) const {
  const LifetimesOptions &a = options, &b = other.options;
  return run == other.run && facts == other.facts && a.layer == b.layer && a.kv_head == b.kv_head &&
         a.order == b.order && a.token == b.token && a.n_tokens == b.n_tokens;
}

/// Sorted here: it takes longer than a frame of a long run has.
std::shared_ptr<const LifetimesView::Facts> LifetimesView::make_facts(const RunRecord& run, int layer, int kv_head) {
  auto facts = std::make_shared<Facts>();
  const std::vector<VerdictOfEviction> verdicts = head_verdicts(run, layer, kv_head);
  for (const LifeOrder order : {LifeOrder::position, LifeOrder::cost, LifeOrder::life})
    facts->lives[static_cast<std::size_t>(order)] =
        token_lives(run, layer, kv_head, 0, run.n_tokens(), verdicts, order);
  std::ranges::copy_if(run.contests, std::back_inserter(facts->contests),
                       [&](const Contest& c) { return c.layer == layer && c.kv_head == kv_head; });
  return facts;
}

/// One that goes on is the same with every token: nothing is judged, and its contests still come.
std::shared_ptr<const LifetimesView::Facts> LifetimesView::facts_of(const ShownRun& shown,
                                                                    const LifetimesOptions& options) {
  const RunRecord& run = *shown.run;
  const bool ended = run.status != RunStatus::running;
  const FactsKey key{ended ? RunKey(&shown) : RunKey(), options.layer, options.kv_head};
  if (facts_ && key == facts_key_) return facts_;
  const std::int64_t heads = run.oracle.pooled ? run.evict_at.n_layers() * run.evict_at.n_kv_heads() : 1;
  const std::int64_t cost = heads * run.n_tokens() + static_cast<std::int64_t>(run.contests.size()) / 64;
  std::shared_ptr<const Facts> found;
  if (!ended) {
    found = std::make_shared<const Facts>();
  } else if (cost <= kLivesAtOnce) {
    found = make_facts(run, key.layer, key.kv_head);
  } else if (auto answer =
                 debounced_.of(key, [run = shown.run, key] { return make_facts(*run, key.layer, key.kv_head); })) {
    found = *answer;
  }
  if (found) facts_key_ = key;
  return found;
}

std::string LifetimesView::note_on(const RunRecord& run, const LifetimesOptions& options) {
  if (run.queries() == 0) return "The run has not read a token yet.";
  if (run.status == RunStatus::running) return "Verdicts and costs appear when the run has ended.";
  if (run.future_mass.empty()) return "No oracle in this run, so its evictions have no verdict and no cost.";
  if (run.is_local_by_model(options.layer, options.kv_head))
    return "This layer of the model attends to its window alone. No policy decides here.";
  return "A bar is the time in the cache. The line after it has the colour of the oracle's verdict.";
}

void LifetimesView::draw_header(ViewContext& context, const LifetimesOptions& options) {
  constexpr std::array<std::string_view, 3> kOrders = {"By position", "By cost", "By life"};
  constexpr std::array<std::string_view, 3> kHints = {"Tokens in the order of the text", kLifeCostHint,
                                                      "Tokens that stay longest in the cache first"};
  LifetimesLook& look = context.selection->lifetimes;
  int order = static_cast<int>(look.order);
  if (segmented(services_, "lives.order", kOrders, kHints, order))
    look = {.order = static_cast<LifeOrder>(order)};  // the same rows of another order would be other tokens
  if (context.a->preview) preview_badge(services_);
  std::string note = facts_ ? note_on(*context.a->run, options) : "Judging the evictions ...";
  if (look.order != options.order) note += " Rows are by position.";
  lines_of_text(services_, services_.theme->palette.muted, note,
                ImGui::GetContentRegionAvail().x < services_.theme->px(500) ? 2 : 1);
  services_.items->add_text("lives.note", last_item(), note);
}

std::vector<TokenLife> LifetimesView::make_lives(const RunRecord& run, const Key& key) {
  const LifetimesOptions& o = key.options;
  const std::vector<TokenLife>& all = key.facts->lives[static_cast<std::size_t>(o.order)];
  if (all.empty()) return lifetimes_of(run, {}, o);
  const TokenSpan span{o.token, o.n_tokens == 0 ? run.queries() : o.token + o.n_tokens};
  std::vector<TokenLife> lives;
  std::ranges::copy_if(all, std::back_inserter(lives), [&](const TokenLife& life) { return span.contains(life.t); });
  return lives;
}

void LifetimesView::build(const ViewContext& context, Key key) {
  // Where a person zooms or pans the picture follows at once: it is a pass over one head's tokens and one over the pixels.
  if (!rebuild_.due(key, key.options != drawn_.options)) return;
  const RunRecord& run = *context.a->run;
  if (lives_.empty() || !key.same_lives(drawn_)) lives_ = make_lives(run, key);
  drawing_.set(lifetimes_picture(run, lives_, key.options, services_.theme->figure_style(key.width, key.height)));
  drawn_ = std::move(key), run_ = context.a->run;
  rebuild_.done();
}

void LifetimesView::draw_picture(ViewContext& context, ImVec2 room) {
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  const bool clicked = ImGui::InvisibleButton("lives", room);
  frame_focused_item();
  if (context.a->preview) services_.items->add("preview.badge", last_item());
  const Box& box = drawing_.figure().panel("lives")->box;
  const ImVec2 min{origin.x + static_cast<float>(box.x), origin.y + static_cast<float>(box.y)};
  const ImVec2 max{min.x + static_cast<float>(box.w), min.y + static_cast<float>(box.h)};
  draw_marks(context, min, max);
  handle_mouse(context, min, max, clicked);
}

int LifetimesView::row_of(std::int32_t token) const {
  if (drawn_.options.order == LifeOrder::position) {
    const auto row = static_cast<int>(token - lives_[0].t);
    return token >= lives_[0].t && row < static_cast<int>(lives_.size()) ? row : -1;
  }
  const auto found = std::ranges::find(lives_, token, &TokenLife::t);
  return found == lives_.end() ? -1 : static_cast<int>(found - lives_.begin());
}

void LifetimesView::mark_row(int row, ImVec2 min, ImVec2 max, Colour colour) const {
  const TokenSpan shown = rows();
  if (!shown.contains(row)) return;
  const float pitch = (max.y - min.y) / static_cast<float>(shown.size());
  const float top = min.y + static_cast<float>(row - shown.begin) * pitch;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (pitch < kLeastLifePitch) {
    const float y = std::floor(top + pitch / 2);
    return list.AddLine({min.x, y}, {max.x, y}, to_imgui(colour), services_.theme->px(1));
  }
  list.AddRect({min.x - services_.theme->px(1), std::floor(top) - 1},
               {max.x + services_.theme->px(1), std::ceil(top + pitch) + 1}, to_imgui(colour));
}

/// The query, the rows of the selected and of the hovered token, and where each row is.
void LifetimesView::draw_marks(const ViewContext& context, ImVec2 min, ImVec2 max) const {
  const Theme& theme = *services_.theme;
  const TokenSpan queries = lifetime_queries(*run_, drawn_.options), shown = rows();
  services_.items->add("lives.rows", item_rect(min, max));
  const Cursor at = context.cursor_in(*run_);
  if (queries.contains(at.q)) {
    const float share = (static_cast<float>(at.q - queries.begin) + 0.5f) / static_cast<float>(queries.size());
    const float x = std::floor(min.x + share * (max.x - min.x));
    ImGui::GetWindowDrawList()->AddLine({x, min.y}, {x, max.y}, to_imgui(theme.palette.accent), theme.px(1.5f));
    services_.items->add("lives.q", item_rect({x, min.y}, {x + 1, max.y}));
  }
  const float pitch = (max.y - min.y) / static_cast<float>(shown.size());
  for (int row = shown.begin; pitch >= kLeastLifePitch && row < shown.end; ++row) {
    const float top = min.y + static_cast<float>(row - shown.begin) * pitch;
    services_.items->add("lives.row", lives_[static_cast<std::size_t>(row)].t,
                         item_rect({min.x, top}, {max.x, top + pitch}));
  }
  if (context.selection->hovered_token >= 0)
    mark_row(row_of(context.selection->hovered_token), min, max, with_alpha(theme.palette.accent, 150));
  if (at.token >= 0) mark_row(row_of(at.token), min, max, theme.palette.text);
  tokens_per_pixel_mark(services_, "lives.tokens_per_pixel", queries, max.x - min.x,
                        {max.x - theme.px(3), min.y + theme.px(3)});
}

void LifetimesView::handle_mouse(ViewContext& context, ImVec2 min, ImVec2 max, bool clicked) {
  const bool hovered = ImGui::IsItemHovered();
  Selection& selection = *context.selection;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const bool inside = mouse.x >= min.x && mouse.x < max.x && mouse.y >= min.y && mouse.y < max.y;
  // What lies under the mouse is of the picture as it is drawn, before the mouse moves it.
  const TokenSpan shown = rows(), queries = lifetime_queries(*run_, drawn_.options);
  const float pitch = (max.y - min.y) / static_cast<float>(shown.size());

  const auto n = static_cast<int>(lives_.size());
  const TokenSpan before = shown_life_rows(selection, n);
  TokenSpan after = before;
  const RowAxis axis{.rows = &after, .n = n, .least = 1, .from_top = true, .with_time = true, .left_drags = true};
  mouse_.handle(context, min, max, hovered && inside, SpanMouse::Shows::view, &axis);
  after = clamp_span(after, n);
  if (after != before)
    selection.lifetimes = {selection.lifetimes.order, after.size() < n ? after : TokenSpan{}, selection.brush};

  if (!hovered || !inside) return;
  const int row = std::min(shown.begin + static_cast<int>((mouse.y - min.y) / pitch), shown.end - 1);
  const TokenLife& life = lives_[static_cast<std::size_t>(row)];
  selection.hovered_token = life.t;
  selection.hover_told = true;
  const float threshold = ImGui::GetIO().MouseDragThreshold;
  const bool dragged = ImGui::GetIO().MouseDragMaxDistanceSqr[ImGuiMouseButton_Left] >= threshold * threshold;
  if (clicked && !dragged && ImGui::IsMouseReleased(ImGuiMouseButton_Left)) {  // not by a key
    selection.token = life.t;
    const float share = (mouse.x - min.x) / (max.x - min.x);
    scrub_to(selection, queries.begin + static_cast<int>(share * static_cast<float>(queries.size())), *run_);
  }
  if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) draw_card(life, pitch);
}

std::string LifetimesView::fate_of(const TokenLife& life) const {
  const int layer = drawn_.options.layer, kv_head = drawn_.options.kv_head;
  const std::string line = life_line(*run_, layer, kv_head, life.t);
  if (!life.evicted || run_->status == RunStatus::running) return line;
  const auto& contests = drawn_.facts->contests;
  const auto found = std::ranges::lower_bound(contests, life.gone, {}, &Contest::q);
  const bool there = found != contests.end() && found->q == life.gone;
  return line + eviction_reason(*run_, layer, kv_head, life.t, there ? &*found : nullptr);
}

void LifetimesView::draw_card(const TokenLife& life, float pitch) const {
  const HoverCard card(services_);
  const Colour muted = services_.theme->palette.muted;
  ImGui::PushTextWrapPos(services_.theme->px(420));
  const std::string identity = identity_line(*run_, drawn_.options.layer, drawn_.options.kv_head, life.t);
  ImGui::TextUnformatted(identity.c_str());
  const std::string born =
      "read at query " + std::to_string(life.t) + (life.sink ? ", a sink" : "") +
      (life.left_window < life.gone ? ", left the window at query " + std::to_string(life.left_window) : "");
  const std::string fate = fate_of(life);
  text_in(muted, born), text_in(muted, fate);
  std::string verdict;
  if (life.evicted) {
    verdict = life.verdict == EvictionVerdict::wrong   ? "wrong: the oracle keeps it"
              : life.verdict == EvictionVerdict::right ? "right: the oracle agrees"
                                                       : "no verdict";
    if (has_cost(*run_)) verdict += "; cost " + format_number(life.cost);
    text_in(muted, verdict);
  }
  if (pitch < 1) text_in(muted, "one of " + format_number(1 / pitch) + " tokens in this row of pixels");
  ImGui::PopTextWrapPos();
  services_.items->add_text("lives.card", last_item(), identity + " | " + born + " | " + fate + " | " + verdict);
}

}  // namespace kvscope::views
