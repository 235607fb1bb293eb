#include "views/answer_difference_view.h"

#include <algorithm>
#include <cmath>

#include "views/figure/answer_text.h"
#include "views/widgets/answer_card.h"
#include "views/widgets/chrome.h"
#include "views/widgets/imgui_compat.h"
#include "views/widgets/table_cells.h"

namespace kvscope::views {
namespace {

/// Lifetimes looked at in a frame, some 10 ms; more are for another thread.
constexpr std::int64_t kCheapComparison = 4'000'000;
constexpr int kLinesOfNotch = 3;

RunKey ended_key(const ShownRun* run) { return run->run->status == RunStatus::running ? RunKey() : RunKey(run); }

ItemRect rect_at(ImVec2 origin, const Box& box) {
  return {origin.x + static_cast<float>(box.x), origin.y + static_cast<float>(box.y), static_cast<float>(box.w),
          static_cast<float>(box.h)};
}

}  // namespace

void AnswerDifferenceView::draw(ViewContext& context) {
  if (!drawable(context.a)) {
    empty_state(
        services_, context, "empty.answer_difference", "No run yet",
        "Run a prompt under two policies to see where their answers differ, and which lost tokens matter there.", "Run",
        "run.start");
    return;
  }
  if (context.a->preview || (drawable(context.b) && context.b->preview)) preview_badge(services_);
  if (const std::string why = why_nothing(context); !why.empty()) {
    wrapped_text_in(services_.theme->palette.muted, why);
    return services_.items->add_text("difference.note", last_item(), why);
  }
  compare(context);
  count_lost(context);
  keep_in_sight(context);
  draw_header(context);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  if (room.x < services_.theme->px(90) || room.y < services_.theme->px(50))
    return too_little_room(services_, "answers");
  draw_picture(context, room);
}

std::string AnswerDifferenceView::why_nothing(const ViewContext& context) {
  if (!drawable(context.b))
    return "No B yet. Run the prompt again under another policy, then press B next to the other run.";
  if (context.a->preview || context.b->preview)
    return "A preview has the tokens of the run that it was made from. Decode it to compare its answer.";
  return why_no_answers(*context.a->run, *context.b->run);
}

AnswerDifferenceOptions AnswerDifferenceView::options_of(const ViewContext& context) const {
  return {.q = context.selection->q.value_or(-1), .first = first_, .names = {context.a->label, context.b->label}};
}

std::optional<ViewFigure> AnswerDifferenceView::figure(const ViewContext& context) const {
  if (!drawable(context.a) || !why_nothing(context).empty()) return std::nullopt;
  return ViewFigure{options_of(context), {context.a->run, context.b->run}};
}

PartingNumbers AnswerDifferenceView::numbers() const {
  return {*compared_.a, *compared_.b, compared_.answers, lost_.get(), drawn_};
}

void AnswerDifferenceView::compare(const ViewContext& context) {
  const RunRecord &a = *context.a->run, &b = *context.b->run;
  const bool grows = a.status == RunStatus::running || b.status == RunStatus::running;
  const bool goes_on =
      grows && compared_.a && compared_.a->started_utc == a.started_utc && compared_.b->started_utc == b.started_utc;
  const PairKey key{RunKey(context.a), RunKey(context.b)};
  if (!rebuild_answers_.due(key, !goes_on && key != compared_.key)) return;
  compared_ = {key, context.a->run, context.b->run, compare_answers(a, b)};
  if (!goes_on) in_sight_ = first_ = shown_end_ = -1;
  rebuild_answers_.done();
}

void AnswerDifferenceView::count_lost(const ViewContext& context) {
  const ComparedAnswers& answers = compared_.answers;
  if (!answers.why_no_lost.empty()) {
    lost_.reset(), lost_key_ = {};
    return;
  }
  const LostKey key{{ended_key(context.a), ended_key(context.b)},
                    compared_.a->started_utc,
                    compared_.b->started_utc,
                    answers.parting->q};
  if (lost_ && key == lost_key_) return;
  const auto make = [a = compared_.a, b = compared_.b, q = key.q]() -> Lost {
    return std::make_shared<const LostOfBoth>(lost_of_both(*a, *b, q));
  };
  const std::int64_t heads = std::int64_t{compared_.a->evict_at.n_layers()} * compared_.a->evict_at.n_kv_heads();
  if (2 * heads * (key.q + 1) <= kCheapComparison) {
    lost_ = make();
  } else {
    lost_ = debounced_.of(key, make).value_or(nullptr);
  }
  lost_key_ = key;
}

void AnswerDifferenceView::keep_in_sight(const ViewContext& context) {
  const ComparedAnswers& answers = compared_.answers;
  const int at = difference_at(answers.difference, context.selection->q.value_or(-1));
  if (at == in_sight_) return;
  in_sight_ = at;
  const int token = at < 0 ? -1 : answers.begins[static_cast<std::size_t>(at)];
  first_ = token >= shown_begin_ && token < shown_end_ ? shown_begin_ : -1;
}

/// The way from difference to difference, and what is known of the first one.
void AnswerDifferenceView::draw_header(ViewContext& context) {
  const ComparedAnswers& answers = compared_.answers;
  const AnswerDifferenceOptions options = options_of(context);
  const auto n = answers.difference.differences.size();
  if (n > 0) {
    const bool back = line_button(services_, "difference.previous", "Previous",
                                  "Go to the previous difference of the answers", false, true);
    const bool on =
        line_button(services_, "difference.next", "Next", "Go to the next difference of the answers", false);
    if ((back || on) && context.command) context.command(back ? "difference.previous" : "difference.next");
    const std::string count = "Difference " + std::to_string(in_sight_ + 1) + " of " + std::to_string(n);
    const float gap = services_.theme->px(10), right = right_edge_on_screen();
    if (ImGui::GetItemRectMax().x + gap + ImGui::CalcTextSize(count.c_str()).x <= right) ImGui::SameLine(0, gap);
    ImGui::AlignTextToFramePadding();
    text_in(services_.theme->palette.muted, count);
    services_.items->add_text("difference.count", last_item(), count);
  }
  std::string text = parting_sentence(*compared_.a, *compared_.b, answers, lost_.get(), options);
  text += (text.empty() ? "" : " ") + count_sentence(answers, options);
  const float width = ImGui::GetContentRegionAvail().x;
  lines_of_text(services_, services_.theme->palette.text, text, width < services_.theme->px(620) ? 3 : 2);
  services_.items->add_text("difference.sentence", last_item(), text);
}

void AnswerDifferenceView::draw_picture(ViewContext& context, ImVec2 room) {
  AnswerDifferenceOptions options = options_of(context);
  // Queries between two differences have one picture.
  options.q =
      in_sight_ < 0 ? -1 : query_of(compared_.answers.difference.differences[static_cast<std::size_t>(in_sight_)]);
  build({compared_.key, lost_, std::move(options), room.x, room.y, services_.theme->scale, services_.theme->dark});
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  drawing_.draw(*ImGui::GetWindowDrawList(), origin, 1, *services_.theme);
  ImGui::InvisibleButton("answers", room);
  frame_focused_item();
  draw_marks(context, origin);
  handle_mouse(context, origin);
}

void AnswerDifferenceView::build(const PictureKey& key) {
  if (!rebuild_picture_.due(key, key.options != drawn_)) return;
  drawing_.set(answer_difference_figure(*compared_.a, *compared_.b, compared_.answers, lost_.get(), key.options,
                                        services_.theme->figure_style(key.width, key.height))
                   .figure);
  drawn_ = key.options;
  shown_begin_ = 0, shown_end_ = -1;
  for (const Panel& panel : drawing_.figure().panels) {
    const int token = joint_token(numbers(), panel.id);
    if (token < 0) continue;
    if (shown_end_ < 0) shown_begin_ = token;
    shown_end_ = token + 1;
  }
  rebuild_picture_.done();
}

/// The selected token wherever it is, and the difference in sight.
bool AnswerDifferenceView::is_marked(const Selection& selection, std::string_view panel) const {
  if (const LostToken* lost = lost_token(numbers(), panel)) return lost->t == selection.token;
  const int token = joint_token(numbers(), panel);
  if (token < 0) return false;
  const ComparedAnswers& answers = compared_.answers;
  if (in_sight_ >= 0) {
    const AnswerPart& part = answers.difference.differences[static_cast<std::size_t>(in_sight_)];
    const int begin = answers.begins[static_cast<std::size_t>(in_sight_)];
    if (token >= begin && token < begin + part.n_a + part.n_b) return true;
  }
  const std::int32_t a = answers.text[static_cast<std::size_t>(token)].a;
  return a >= 0 && a == selection.token;
}

void AnswerDifferenceView::draw_marks(const ViewContext& context, ImVec2 origin) const {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  for (const Panel& panel : drawing_.figure().panels) {
    const ItemRect rect = rect_at(origin, panel.box);
    services_.items->add("difference." + panel.id, rect);
    if (is_marked(*context.selection, panel.id))
      list.AddRect({rect.x - 1, rect.y - 1}, {rect.x + rect.w + 1, rect.y + rect.h + 1},
                   to_imgui(services_.theme->palette.accent), services_.theme->px(2));
  }
}

/// A click selects what is under the mouse, the wheel scrolls the text.
void AnswerDifferenceView::handle_mouse(ViewContext& context, ImVec2 origin) {
  if (!ImGui::IsItemHovered()) return;
  const bool clicked = ImGui::IsItemClicked();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const Point at{mouse.x - origin.x, mouse.y - origin.y};
  const Figure& figure = drawing_.figure();
  if (const Panel* text = figure.panel("text"); text != nullptr && text->box.contains(at))
    scroll(ImGui::GetIO().MouseWheel, text->box.w);
  // What is in a panel comes after it.
  const auto hit = std::ranges::find_if(figure.panels.rbegin(), figure.panels.rend(),
                                        [&](const Panel& panel) { return panel.box.contains(at); });
  if (hit == figure.panels.rend()) return;
  if (clicked) click(context, hit->id);
  draw_answer_card(services_, numbers(), hit->id);
}

void AnswerDifferenceView::scroll(float notches, double width) {
  if (notches == 0 || shown_end_ < 0) return;
  AnswerLines lines(*compared_.a, *compared_.b, compared_.answers, width,
                    services_.theme->figure_style(1, 1).label_size);
  int first = shown_begin_;
  for (int i = 0; i < kLinesOfNotch * std::max(1, static_cast<int>(std::abs(notches))); ++i) {
    if (notches > 0) {
      first = lines.line_before(first);
    } else if (const auto two = lines.lines_from(first, 2); two.size() == 2 && shown_end_ < lines.n_tokens()) {
      first = two[1].begin;
    }
  }
  first_ = first;
}

void AnswerDifferenceView::click(ViewContext& context, std::string_view panel) {
  Selection& selection = *context.selection;
  const RunRecord& run = *context.a->run;
  selection.play.on = false;
  if (const LostToken* lost = lost_token(numbers(), panel)) {
    selection.token = lost->t, selection.layer = lost->layer, selection.kv_head = lost->kv_head;
    return scrub_to(selection, compared_.answers.parting->q, run);
  }
  const int token = joint_token(numbers(), panel);
  if (token < 0) return;
  const JointToken& joint = compared_.answers.text[static_cast<std::size_t>(token)];
  if (joint.a >= 0) {
    selection.token = joint.a;
    return scrub_to(selection, std::max(0, joint.a - 1), run);
  }
  const auto& begins = compared_.answers.begins;  // a token of B: A has no place for it but the difference
  const auto difference = std::ranges::upper_bound(begins, token) - begins.begin() - 1;
  scrub_to(selection, query_of(compared_.answers.difference.differences[static_cast<std::size_t>(difference)]), run);
}

}  // namespace kvscope::views
