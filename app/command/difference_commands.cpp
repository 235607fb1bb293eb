// difference.*: from one difference between the answers of A and B to the next.

#include "app/command/app_commands.h"
#include "engine/core/study/measure/answer_difference.h"
#include "views/figure/answer_difference.h"

namespace kvscope::app {
namespace {

std::string why_no_difference(const Session& session) {
  const views::ShownRun *a = session.runs().shown_a(), *b = session.runs().shown_b();
  if (!views::drawable(a) || !views::drawable(b)) return "There is no A and B to compare.";
  if (a->preview || b->preview) return "A preview has no answer to compare.";
  return views::why_no_answers(*a->run, *b->run);
}

void step_difference(Session& session, int direction) {
  const RunRecord &a = run_of(session), &b = *session.runs().shown_b()->run;
  const AnswerDifference found = answer_difference(a, b);
  views::Selection& selection = session.selection();
  const int at = difference_from(found, selection.q.value_or(direction > 0 ? -1 : a.n_tokens()), direction);
  if (at < 0) return session.messages().notify("The answers are the same");
  const AnswerPart& part = found.differences[static_cast<std::size_t>(at)];
  const std::int32_t q = query_of(part);
  selection.play.on = false;
  if (part.n_a > 0) selection.token = part.a;
  views::scrub_to(selection, q, a);
  views::reveal_token(selection, q, a);
}

}  // namespace

void add_difference_commands(CommandRegistry& registry, Session& session) {
  const auto add = [&](const char* id, const char* title, const char* shortcut, int direction) {
    registry.add({.id = id,
                  .title = title,
                  .group = "Select",
                  .shortcut = shortcut,
                  .run = [&session, direction] { step_difference(session, direction); },
                  .why_not = [&session] { return why_no_difference(session); }});
  };
  add("difference.next", "Next difference of the answers", "Alt+Down", 1);
  add("difference.previous", "Previous difference of the answers", "Alt+Up", -1);
}

}  // namespace kvscope::app
