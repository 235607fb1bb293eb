#include "app/session/chat_answers.h"

#include <ranges>
#include <utility>

#include "app/session/answer.h"
#include "engine/core/study/measure/compare_runs.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kEarlierAnswers = 200;  // as many as there are steps that lead back to one

/// The last turn is this answer, to the question that it was asked. What came before may have been edited since.
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

void ChatAnswers::begin(std::string so_far, int tokens_before) {
  if (!last_.coming && !last_.text.empty()) {
    if (earlier_.size() == kEarlierAnswers) earlier_.erase(earlier_.begin());
    earlier_.push_back(std::move(last_));
  }
  last_ = {.run = runs_.newest_begun(),
           .coming = true,
           .asked = next_run_.parameters().chat.turns,
           .so_far = std::move(so_far),
           .tokens_before = tokens_before,
           .text = ""};
}

void ChatAnswers::take_place(ChatListener::Shown before) {
  if (!last_.coming || runs_.a_id() != last_.run || before.first == last_.run) return;
  if (listener_.on_place) listener_.on_place(last_, before, runs_.shown_ids());
}

// Of a chat that was edited, or undone, since, the last turn is another: an earlier one's answer, or it has none. Of two
// runs that answered the same it is the one that is shown as A.
const ChatAnswer* ChatAnswers::on_show() const {
  const std::vector<ChatMessage>& turns = next_run_.parameters().chat.turns;
  if (last_.coming && turns == last_.asked) return &last_;
  if (turns.empty() || turns.back().role != "assistant") return nullptr;
  const ChatAnswer* found = !last_.coming && ends_with(turns, last_) ? &last_ : nullptr;
  for (auto answer = earlier_.rbegin(); answer != earlier_.rend(); ++answer) {
    if (found && runs_.a() && found->run == runs_.a()->id) break;
    if (ends_with(turns, *answer) && (!found || (runs_.a() && answer->run == runs_.a()->id))) found = &*answer;
  }
  return found;
}

const RunEntry* ChatAnswers::run() const {
  const ChatAnswer* answer = on_show();
  return answer ? runs_.find(answer->run) : nullptr;
}

int ChatAnswers::tokens_before() const {
  const ChatAnswer* answer = on_show();
  return answer ? answer->tokens_before : 0;
}

// The run that is A first; another one, which may have been shown instead since, has only the turn that is there already.
void ChatAnswers::take_up() {
  const std::vector<ChatMessage>& turns = next_run_.parameters().chat.turns;
  if (next_run_.parameters().raw || turns.empty() || last_.coming) return;
  if (runs_.a() && take_up(*runs_.a())) return;
  for (const RunEntry& entry : std::views::reverse(runs_.all())) {
    if (turns.back().role == "assistant" && &entry != runs_.a() && take_up(entry)) return;
  }
}

bool ChatAnswers::take_up(const RunEntry& entry) {
  const std::vector<ChatMessage>& turns = next_run_.parameters().chat.turns;
  const RunRecord& run = *entry.run;
  const bool answered = turns.back().role == "assistant";
  if (answered && turns.size() < 2) return false;
  const ChatMessage& asked = answered ? turns[turns.size() - 2] : turns.back();
  if (run.prompt_text != asked.content) return false;
  const std::string answer = answer_text(run, entry.stop());
  if (answer.empty()) return false;
  if (!answered) {
    last_ = {.run = entry.id, .asked = turns, .so_far = "", .text = answer};
    next_run_.answered(answer);
    return true;
  }
  std::string turn = turns.back().content;
  // A window that was killed may have saved the turn later than the run. The turn is what the newest run has.
  const bool is_cut = run.status == RunStatus::cancelled && !run.message.empty() && entry.id == runs_.all().back().id;
  if (is_cut && turn.size() > answer.size() && turn.starts_with(answer)) {
    turn = answer;
    next_run_.answered(answer);
  }
  // Continue made it: its answer ends the turn, or was cut off before it had become part of it.
  Before before = answer_before(runs_.all(), run);
  const bool cut_off = before.tokens > 0 && (turn == before.text || turn == before.cut);
  if (turn == answer && !cut_off) before = {};
  if (cut_off ? &entry != runs_.a() : turn != before.text + answer) return false;
  last_ = {.run = entry.id,
           .asked = turns,
           .so_far = before.text,
           .tokens_before = before.tokens,
           .text = before.text + answer};
  if (cut_off) next_run_.answered(last_.text);
  return true;
}

std::string ChatAnswers::answer_of(const RunEntry& entry) const {
  return &entry == run() ? answer() : answer_text(*entry.run, entry.stop());
}

std::string ChatAnswers::answer() const {
  const RunEntry* entry = run();
  return entry ? on_show()->so_far + answer_text(*entry->run, entry->stop()) : "";
}

// A turn that failed or was stopped before a word is a draft again. If the chat is another by now (undone, edited), the
// answer belongs to its run and to the states that asked.
void ChatAnswers::take_answer() {
  if (!last_.coming) return;
  const RunEntry* entry = runs_.find(last_.run);
  last_.coming = false;
  last_.text = entry ? last_.so_far + answer_text(*entry->run, entry->stop()) : "";
  if (!entry) return;
  const std::vector<ChatMessage>& turns = next_run_.parameters().chat.turns;
  const bool on_show = turns == last_.asked;
  if (!last_.text.empty()) {
    if (listener_.on_answer) listener_.on_answer(last_, with_answer(last_.asked, last_.text));
    if (on_show) next_run_.answered(last_.text);
    return;
  }
  const bool asked = !turns.empty() && turns.back().role == "user";
  if (on_show && entry->run->status != RunStatus::complete && asked && next_run_.parameters().prompt.empty())
    next_run_.edit_turn(static_cast<int>(turns.size()) - 1);
}

}  // namespace kvscope::app
