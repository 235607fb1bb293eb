// Session: a chat's runs, and the turns that their answers become.

#include <algorithm>
#include <ranges>
#include <utility>

#include "app/session/answer.h"
#include "app/session/session.h"
#include "app/support/usage.h"
#include "engine/core/study/measure/compare_runs.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kEarlierAnswers = 200;  // as many as there are steps that lead back to one

/// The last turn is this answer, to the question that it was asked. What was said before may have been edited since.
bool ends_with(const std::vector<ChatMessage>& turns, const ChatAnswer& answer) {
  const std::size_t n = answer.asked.size() - (answer.goes_on() ? 1 : 0);
  return turns.size() == n + 1 && turns.back().content == answer.text &&
         (n == 0 || turns[n - 1] == answer.asked[n - 1]);
}

/// What a run's answer goes on from.
struct Before {
  int tokens = 0;         // 0: from nothing
  std::string text, cut;  // with the stop text that ended it, and as the turn was before Continue
};

/// Of the run whose tokens are its prompt, and of that one's.
Before answer_before(const std::vector<RunEntry>& runs, const RunRecord& run) {
  for (const RunEntry& entry : runs) {
    const RunRecord& r = *entry.run;
    if (r.n_tokens() != run.prompt_len || r.prompt_len >= r.n_tokens() || r.prompt_text != run.prompt_text) continue;
    if (common_prefix(r, run) < r.n_tokens()) continue;
    const Before before = answer_before(runs, r);
    return {before.tokens + r.n_tokens() - r.prompt_len, before.text + answer_text(r),
            before.text + answer_text(r, entry.stop())};
  }
  return {};
}

}  // namespace

void Session::start_run() {
  start({.request = next_run_.request()}, RunList::Place::a);
  if (parameters().raw) return;
  next_run_.sent();
  begin_answer("", 0);
}

void Session::begin_answer(std::string so_far, int tokens_before) {
  if (!chat_.coming && !chat_.text.empty()) {
    if (earlier_answers_.size() == kEarlierAnswers) earlier_answers_.erase(earlier_answers_.begin());
    earlier_answers_.push_back(std::move(chat_));
  }
  chat_ = {.run = runs_.newest_begun(),
           .coming = true,
           .asked = parameters().chat.turns,
           .so_far = std::move(so_far),
           .tokens_before = tokens_before,
           .text = ""};
}

void Session::continue_run() {
  if (!a() || a()->run->n_tokens() <= a()->run->prompt_len) usage_error("run", "A has no answer to continue");
  if (has_end_mark(*a()->run)) usage_error("run", "A's answer is complete");
  const bool of_chat = a() == chat_run();
  // The stop text that it ended at is among the tokens that it goes on from.
  const std::string so_far = of_chat ? answer_on_show()->so_far + answer_text(*a()->run) : "";
  const int n_so_far = chat_tokens_before() + a()->run->n_tokens() - a()->run->prompt_len;
  const int last = a()->run->n_tokens() - 1;
  start({.request = next_run_.go_on(*a()->run, last),
         .by_text = false,
         .origin = from(RunOrigin::Kind::fork, *a(), last)},
        RunList::Place::a);
  if (of_chat) begin_answer(so_far, n_so_far);
}

// Of a chat that was edited, or undone, since, the last turn is another: an earlier one's answer, or nobody's. Of two runs
// that said the same it is the one that is shown as A.
const ChatAnswer* Session::answer_on_show() const {
  const std::vector<ChatMessage>& turns = parameters().chat.turns;
  if (chat_.coming && turns == chat_.asked) return &chat_;
  if (turns.empty() || turns.back().role != "assistant") return nullptr;
  const ChatAnswer* found = !chat_.coming && ends_with(turns, chat_) ? &chat_ : nullptr;
  for (auto answer = earlier_answers_.rbegin(); answer != earlier_answers_.rend(); ++answer) {
    if (found && a() && found->run == a()->id) break;
    if (ends_with(turns, *answer) && (!found || (a() && answer->run == a()->id))) found = &*answer;
  }
  return found;
}

const RunEntry* Session::chat_run() const {
  const ChatAnswer* answer = answer_on_show();
  return answer ? find_run(answer->run) : nullptr;
}

int Session::chat_tokens_before() const {
  const ChatAnswer* answer = answer_on_show();
  return answer ? answer->tokens_before : 0;
}

// The run that is A first; another one, which may have been shown instead since, has only the turn that is there already.
void Session::take_up_chat() {
  const std::vector<ChatMessage>& turns = parameters().chat.turns;
  if (parameters().raw || turns.empty() || chat_.coming) return;
  if (a() && take_up_answer(*a())) return;
  for (const RunEntry& entry : std::views::reverse(runs_.all())) {
    if (turns.back().role == "assistant" && &entry != a() && take_up_answer(entry)) return;
  }
}

bool Session::take_up_answer(const RunEntry& entry) {
  const std::vector<ChatMessage>& turns = parameters().chat.turns;
  const RunRecord& run = *entry.run;
  const bool answered = turns.back().role == "assistant";
  if (answered && turns.size() < 2) return false;
  const ChatMessage& asked = answered ? turns[turns.size() - 2] : turns.back();
  if (run.prompt_text != asked.content) return false;
  const std::string answer = answer_text(run, entry.stop());
  if (answer.empty()) return false;
  if (!answered) {
    chat_ = {.run = entry.id, .asked = turns, .so_far = "", .text = answer};
    next_run_.answered(answer);
    return true;
  }
  std::string turn = turns.back().content;
  // A window that was killed may have saved the turn later than the run, or of the run that was resumed only the beginning.
  // The turn is what the newest run has.
  const bool is_cut = run.status == RunStatus::cancelled && !run.message.empty() && entry.id == runs_.all().back().id;
  if (is_cut && turn.size() > answer.size() && turn.starts_with(answer)) {
    turn = answer;
    next_run_.answered(answer);
  }
  // Continue made it: its answer ends the turn, or was cut off before it had become part of it.
  Before before = answer_before(runs_.all(), run);
  const bool cut_off = before.tokens > 0 && (turn == before.text || turn == before.cut);
  if (turn == answer && !cut_off) before = {};
  if (cut_off ? &entry != a() : turn != before.text + answer) return false;
  chat_ = {.run = entry.id,
           .asked = turns,
           .so_far = before.text,
           .tokens_before = before.tokens,
           .text = before.text + answer};
  if (cut_off) next_run_.answered(chat_.text);
  return true;
}

std::string Session::answer_of(const RunEntry& entry) const {
  return &entry == chat_run() ? chat_answer() : answer_text(*entry.run, entry.stop());
}

std::string Session::chat_answer() const {
  const RunEntry* entry = chat_run();
  return entry ? answer_on_show()->so_far + answer_text(*entry->run, entry->stop()) : "";
}

// A turn that has been answered is part of what the next one is asked with; one that failed or was stopped before a word is
// a draft again. Where the chat is another by now (undone, edited), the answer is its run's alone, and that of the states
// that asked.
void Session::take_answer() {
  const RunEntry* entry = find_run(chat_.run);
  chat_.coming = false;
  chat_.text = entry ? chat_.so_far + answer_text(*entry->run, entry->stop()) : "";
  if (!entry) return;
  const std::vector<ChatMessage>& turns = parameters().chat.turns;
  const bool on_show = turns == chat_.asked;
  if (!chat_.text.empty()) {
    if (chat_listener_.on_answer) chat_listener_.on_answer(chat_, with_answer(chat_.asked, chat_.text));
    if (on_show) next_run_.answered(chat_.text);
    return;
  }
  const bool asked = !turns.empty() && turns.back().role == "user";
  if (on_show && entry->run->status != RunStatus::complete && asked && parameters().prompt.empty())
    next_run_.edit_turn(static_cast<int>(turns.size()) - 1);
}

}  // namespace kvscope::app
