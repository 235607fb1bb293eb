#include "views/lost_fact_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "views/figure/figure_builder.h"
#include "views/figure/token_facts.h"
#include "views/widgets/chrome.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

/// Lifetimes and queries looked at in a frame, some 10 ms; more are for another thread.
constexpr std::int64_t kCheapPicture = 4'000'000;

constexpr const char* kNoSpan =
    "Select a token, or drag with Shift over the token strip to mark several, to see which heads lost them.";

std::string panel_name(std::size_t run) { return run == 0 ? "heads" : "heads." + std::to_string(run); }

std::string head_words(int layer, int kv_head) { return "L" + std::to_string(layer) + " H" + std::to_string(kv_head); }

}  // namespace

void LostFactView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(services_, context, "empty.lost_fact", "No run yet",
                "Run a prompt or open a trace to see which heads lost a part of the text.", "Run", "run.start");
    return;
  }
  const Subject subject = subject_of(context);
  const std::string why = refusal(*context.a->run, subject.span);
  verdicts_ = judged_.of(subject.runs);
  draw_header(context, subject, why);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const auto px = [this](float points) { return services_.theme->px(points); };
  if (room.x < px(90) || room.y < px(50)) return too_little_room(services_, "heads");
  const float gap = ImGui::GetStyle().ItemSpacing.y;
  const auto list_in = [&](ImVec2 size) { misses_.draw(context, verdicts_ ? &verdicts_->worst : nullptr, size); };
  if (!why.empty()) return list_in(room);
  if (room.x >= px(620)) {  // beside it
    const float list = std::min(px(300), room.x * 0.36f), strip = room.x - list - px(12);
    draw_strip(context, subject, {strip, room.y});
    ImGui::SameLine(0, px(12));
    ImGui::BeginGroup();
    list_in({list, room.y});
    return ImGui::EndGroup();
  }
  // Below it, or where there is room for one of them only not at all.
  const bool note_only = !verdicts_ || verdicts_->worst.empty();
  const float least = note_only ? px(44) : px(90);
  const float list = room.y < px(260) ? 0 : std::clamp(note_only ? 0 : room.y * 0.34f, least, px(220));
  draw_strip(context, subject, {room.x, room.y - (list > 0 ? list + gap : 0)});
  if (list > 0) list_in({room.x, list});
}

LostFactView::Subject LostFactView::subject_of(const ViewContext& context) {
  const RunRecord& run = *context.a->run;
  Subject subject{{}, {*context.a}};
  const TokenSpan brush = context.selection->brush;
  const int token = context.cursor_in(run).token;
  if (!brush.empty() && brush.begin < run.n_tokens()) {
    subject.span = {std::max(0, brush.begin), std::min(brush.end, run.n_tokens())};
  } else if (token >= 0) {
    subject.span = {token, token + 1};
  }
  if (subject.span.empty()) return subject;
  if (context.same_text) {
    if (std::vector<ShownRun> runs = context.same_text(subject.span.end); !runs.empty()) subject.runs = std::move(runs);
  } else if (drawable(context.b) && same_shape(run, *context.b->run) &&
             common_prefix(run, *context.b->run) >= subject.span.end) {
    subject.runs.push_back(*context.b);
  }
  return subject;
}

LostFactOptions LostFactView::options_of(const ViewContext& context, const Subject& subject) {
  LostFactOptions options{.token = subject.span.begin, .n_tokens = subject.span.size()};
  options.order = context.selection->lost_by_layer ? HeadOrder::layer : HeadOrder::mass;
  for (std::size_t i = 0; i < subject.runs.size(); ++i) {
    options.names.push_back(subject.runs[i].label);
    if (subject.runs[i].preview) options.previews.push_back(static_cast<int>(i));
  }
  const int n = context.a->run->n_tokens();
  const TokenSpan shown = shown_span(*context.selection, n);
  if (shown.size() < n) options.first = shown.begin, options.count = shown.size();
  return options;
}

std::string LostFactView::refusal(const RunRecord& run, TokenSpan span) {
  if (span.empty()) return kNoSpan;
  if (span.begin >= run.queries()) return "The run has not read this token yet.";
  const std::vector<std::int32_t> windows = run.model_windows();
  const bool all_local = !windows.empty() && std::ranges::count(windows, 0) == 0;
  return all_local ? "No policy decides in this model: every layer attends to its window alone." : "";
}

std::optional<ViewFigure> LostFactView::figure(const ViewContext& context) const {
  if (!drawable(context.a)) return std::nullopt;
  const Subject subject = subject_of(context);
  if (!refusal(*context.a->run, subject.span).empty()) return std::nullopt;
  ViewFigure figure{options_of(context, subject), {}};
  for (const ShownRun& run : subject.runs) figure.runs.push_back(run.run);
  return figure;
}

/// The order, and the sentence about A.
void LostFactView::draw_header(ViewContext& context, const Subject& subject, const std::string& why) {
  constexpr std::array<std::string_view, 2> kOrders = {"By mass lost", "By layer"};
  constexpr std::array<std::string_view, 2> kHints = {"Heads that lost the most future mass first",
                                                      "Heads in the order of the layers"};
  int order = context.selection->lost_by_layer ? 1 : 0;
  if (segmented(services_, "lost.order", kOrders, kHints, order)) context.selection->lost_by_layer = order == 1;
  if (context.a->preview) preview_badge(services_);
  const RunRecord& run = *context.a->run;
  std::string text = why;
  Colour colour = services_.theme->palette.muted;
  if (why.empty() && verdicts_) {
    if (rebuild_sentence_.due({RunKey(context.a), subject.span, verdicts_})) {
      const SpanLoss loss = span_loss(run, subject.span.begin, subject.span.end - 1, *verdicts_->verdicts[0]);
      sentence_ = span_name(run, loss) + ": " + span_sentence(run, loss);
      rebuild_sentence_.done();
    }
    text = sentence_;
    colour = services_.theme->palette.text;
  } else if (why.empty()) {
    text = "Judging the evictions ...";
  }
  const float width = ImGui::GetContentRegionAvail().x;
  lines_of_text(services_, colour, text,
                width < services_.theme->px(400)   ? 4
                : width < services_.theme->px(620) ? 3
                                                   : 2);
  services_.items->add_text("lost.sentence", last_item(), text);
}

void LostFactView::draw_strip(ViewContext& context, const Subject& subject, ImVec2 room) {
  const Key key{[&] {
                  std::vector<RunKey> runs;
                  for (const ShownRun& run : subject.runs) runs.emplace_back(&run);
                  return runs;
                }(),
                verdicts_,
                options_of(context, subject),
                room.x,
                room.y,
                services_.theme->scale,
                services_.theme->dark};
  if (!verdicts_ || !build(subject, key)) {
    ImGui::Dummy(room);
    return;
  }
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  ImGui::InvisibleButton("heads", room);
  frame_focused_item();
  if (!drawn_.previews.empty()) services_.items->add("preview.badge", last_item());
  draw_marks(context, origin);
  handle_mouse(context, origin);
}

/// Whether a picture is there: a large one is made on a thread.
bool LostFactView::build(const Subject& subject, const Key& key) {
  std::int64_t cost = 0;
  for (const ShownRun& run : subject.runs)
    cost += (std::int64_t{run.run->n_tokens()} + subject.span.size()) * run.run->evict_at.n_layers() *
            run.run->evict_at.n_kv_heads();
  const auto make = [runs = subject.runs, judged = verdicts_, options = key.options,
                     style = services_.theme->figure_style(key.width, key.height)] {
    std::vector<const RunRecord*> pointers;
    std::vector<const EvictionVerdicts*> verdicts;
    for (const ShownRun& run : runs) pointers.push_back(run.run.get());
    for (const auto& of_run : judged->verdicts) verdicts.push_back(of_run.get());
    auto picture = std::make_shared<Picture>();
    picture->runs = lost_fact_runs(pointers, verdicts, options);
    picture->figure = lost_fact_figure(pointers, picture->runs, options, style).figure;
    return std::shared_ptr<const Picture>(std::move(picture));
  };
  if (cost > kCheapPicture) {
    if (const auto picture = debounced_.of(key, make); picture && rebuild_.due(key)) take(**picture, subject, key);
  } else if (rebuild_.due(key, key.options != drawn_ || key.runs.size() != drawn_runs_.size())) {
    take(*make(), subject, key);
  }
  return drawn_runs_.size() == subject.runs.size();
}

void LostFactView::take(Picture picture, const Subject& subject, const Key& key) {
  drawing_.set(std::move(picture.figure));
  lost_ = std::move(picture.runs);
  drawn_ = key.options;
  drawn_runs_ = subject.runs;
  rebuild_.done();
}

TokenSpan LostFactView::queries_drawn() const {
  std::vector<const RunRecord*> runs;
  for (const ShownRun& run : drawn_runs_) runs.push_back(run.run.get());
  return lost_fact_queries(runs, drawn_);
}

ImVec2 LostFactView::corner(ImVec2 origin, double x, double y) {
  return {origin.x + static_cast<float>(x), origin.y + static_cast<float>(y)};
}

/// The position, and in each run's heads the selected one.
void LostFactView::draw_marks(const ViewContext& context, ImVec2 origin) const {
  const Theme& theme = *services_.theme;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const TokenSpan queries = queries_drawn();
  for (std::size_t i = 0; i < lost_.size(); ++i) {
    const Panel* panel = drawing_.figure().panel(panel_name(i));
    if (panel == nullptr) continue;
    const ImVec2 a = corner(origin, panel->box.x, panel->box.y),
                 b = corner(origin, panel->box.right(), panel->box.bottom());
    services_.items->add("lost.heads", static_cast<int>(i), item_rect(a, b));
    const Cursor at = context.cursor_in(*drawn_runs_[i].run);
    if (queries.contains(at.q)) {
      const float share = (static_cast<float>(at.q - queries.begin) + 0.5f) / static_cast<float>(queries.size());
      const float x = std::floor(a.x + share * (b.x - a.x));
      list.AddLine({x, a.y}, {x, b.y}, to_imgui(theme.palette.accent), theme.px(1.5f));
    }
    const float pitch = (b.y - a.y) / static_cast<float>(std::max<std::size_t>(1, lost_[i].rows.size()));
    for (std::size_t row = 0; row < lost_[i].rows.size(); ++row) {
      const HeadSpan& head = lost_[i].loss.heads[static_cast<std::size_t>(lost_[i].rows[row])];
      const float top = a.y + static_cast<float>(row) * pitch;
      if (i == 0)
        services_.items->add("lost.head", head.layer, head.kv_head, item_rect({a.x, top}, {b.x, top + pitch}));
      if (head.layer != at.layer || head.kv_head != at.kv_head) continue;
      list.AddRect({a.x - theme.px(1), std::floor(top) - 1}, {b.x + theme.px(1), std::ceil(top + pitch) + 1},
                   to_imgui(theme.palette.accent));
    }
  }
}

/// A click selects the head and goes to the query; what else the mouse does is the timeline's.
void LostFactView::handle_mouse(ViewContext& context, ImVec2 origin) {
  const bool hovered = ImGui::IsItemHovered();
  const bool active = ImGui::IsItemActive() && ImGui::IsMouseDown(ImGuiMouseButton_Left);  // not by a key
  const TokenSpan queries = queries_drawn();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  if (const Panel* first = drawing_.figure().panel("heads")) {
    const Panel* last = drawing_.figure().panel(panel_name(lost_.size() - 1));
    mouse_.handle_part(context, corner(origin, first->box.x, first->box.y),
                       corner(origin, last->box.right(), last->box.bottom()), hovered, queries);
  }
  if (!hovered && !active) return;
  for (std::size_t i = 0; i < lost_.size(); ++i) {
    const Panel* panel = drawing_.figure().panel(panel_name(i));
    const Point at{mouse.x - origin.x, mouse.y - origin.y};
    if (panel == nullptr || !panel->box.contains(at) || lost_[i].rows.empty()) continue;
    const auto n = static_cast<int>(lost_[i].rows.size());
    const int row = std::clamp(static_cast<int>((at.y - panel->box.y) / panel->box.h * n), 0, n - 1);
    const HeadSpan& head = lost_[i].loss.heads[static_cast<std::size_t>(lost_[i].rows[static_cast<std::size_t>(row)])];
    const int q = queries.begin + static_cast<int>((at.x - panel->box.x) / panel->box.w * queries.size());
    if (active) {
      context.selection->layer = head.layer, context.selection->kv_head = head.kv_head;
      scrub_to(*context.selection, q, *context.a->run);
    }
    if (hovered) draw_card(i, head, q);
  }
}

void LostFactView::draw_card(std::size_t run, const HeadSpan& head, int q) const {
  const SpanLoss& loss = lost_[run].loss;
  const RunRecord& record = *drawn_runs_[run].run;
  const auto held = span_held(record, head.layer, head.kv_head, loss.first, loss.last);
  const HoverCard card(services_);
  const Colour muted = services_.theme->palette.muted;
  ImGui::TextUnformatted((run_name(drawn_, run) + ", " + head_words(head.layer, head.kv_head)).c_str());
  if (q < loss.first || static_cast<std::size_t>(q) >= held.size()) {
    text_in(muted, "query " + std::to_string(q) + ": not read yet");
  } else {
    text_in(muted, "query " + std::to_string(q) + ": " + std::to_string(held[static_cast<std::size_t>(q)]) + " of " +
                       std::to_string(std::min(q, loss.last) - loss.first + 1) + " tokens in the cache");
  }
  if (head.evictions.empty()) return text_in(muted, "evicts none of them");
  text_in(muted, head.gone_at < kUndecided ? "the last one is evicted at query " + std::to_string(head.gone_at)
                                           : std::to_string(head.held_at_end) + " are there at the end");
  if (!record.future_mass.empty())
    text_in(muted, "mass lost " + format_number(head.mass_lost) + "; " + std::to_string(head.wrong) + " of " +
                       std::to_string(head.judged) + " judged evictions wrong");
}

}  // namespace kvscope::views
