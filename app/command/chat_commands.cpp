// chat.*, answer.*, run.continue, run.fork: what was said, and going on from it.

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/session/answer.h"
#include "app/session/obstacles.h"

namespace kvscope::app {
namespace {

void set_chat(NextRun& next, const nlohmann::json& arguments) {
  Conversation chat = next.parameters().chat;
  if (has_argument(arguments, "system")) chat.system = text_argument(arguments, "system");
  if (has_argument(arguments, "thinking")) chat.thinking = flag_argument(arguments, "thinking", true);
  next.set_chat(std::move(chat));
}

void set_stop(NextRun& next, const nlohmann::json& arguments) {
  std::vector<std::string> stop;
  if (!arguments.contains("texts") || !arguments["texts"].is_array()) bad_argument("texts", "a list of texts");
  for (const auto& text : arguments["texts"]) {
    if (!text.is_string()) bad_argument("texts", "a list of texts");
    stop.push_back(text.get<std::string>());
  }
  next.set_stop(std::move(stop));
}

std::string why_not_continue(const Session& session) {
  if (const std::string why = why_not_of_a(session); !why.empty()) return why;
  if (!session.runs().a()) return "";
  const RunRecord& run = *session.runs().a()->run;
  if (has_end_mark(run)) return "A's answer is complete.";
  return run.n_tokens() <= run.prompt_len ? "A has no answer to continue." : "";
}

std::string copy_turn(Session& session, UiState& ui, const nlohmann::json& arguments) {
  const std::vector<ChatMessage>& turns = session.parameters().chat.turns;
  const int turn = integer_argument(arguments, "turn", -1);
  if (turn < 0 || turn >= static_cast<int>(turns.size()))
    usage_error("turn", std::to_string(turn), "a turn of the chat");
  ui.clipboard = turns[static_cast<std::size_t>(turn)].content;
  session.messages().notify("copied turn " + std::to_string(turn + 1) + " of the chat");
  return ui.clipboard;
}

std::string copy_answer(Session& session, UiState& ui, const nlohmann::json& arguments) {
  if (has_argument(arguments, "turn")) return copy_turn(session, ui, arguments);
  const int id = integer_argument(arguments, "id", session.runs().a_id());
  const RunEntry* entry = session.runs().find(id);
  if (!entry) usage_error("id", "no run " + std::to_string(id));
  ui.clipboard = session.chat().answer_of(*entry);
  if (ui.clipboard.empty()) usage_error("answer", "run " + std::to_string(id) + " has none");
  session.messages().notify("copied the answer of run " + std::to_string(id));
  return ui.clipboard;
}

}  // namespace

void add_chat_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  const auto idle = [&session] { return session.engine().model() && session.engine().state() == EngineState::ready; };
  const auto of_a = [&session] { return why_not_of_a(session); };
  registry.add({"run.continue", "Continue A's answer", "Run", "Ctrl+Shift+Enter", takes(),
                [&session, idle] { return idle() && session.runs().a() != nullptr; },
                [&session] { session.continue_run(); }, [&session] { return why_not_continue(session); }});
  registry.add({"run.fork", "Fork from this query", "Run", "", takes(arg::number("q", "the query on show")),
                [&session, idle] { return idle() && session.runs().shown_a() != nullptr; },
                [&session](const nlohmann::json& arguments) {
                  const int last = session.runs().a()->run->n_tokens() - 1;
                  session.fork_run(integer_argument(arguments, "q", session.selection().q.value_or(last)));
                },
                of_a});
  registry.add(
      {"answer.copy", "Copy A's answer", "Prompt", "",
       takes(arg::number("id", "A", "run id"), arg::otherwise(arg::number("turn", "", "number in the chat, from 0"))),
       nullptr, [&session, &ui](const nlohmann::json& arguments) { return copy_answer(session, ui, arguments); },
       [&session]() -> std::string {
         if (!session.runs().a()) return "There is no run.";
         return session.chat().answer_of(*session.runs().a()).empty() ? "A has no answer to copy." : "";
       }});
  registry.add(
      {"chat.new", "New chat", "Prompt", "", takes(), nullptr,
       [&session, &ui] {
         Conversation chat = session.parameters().chat;
         chat.turns.clear();
         session.next_run().set_chat(std::move(chat));
         session.next_run().set_prompt("");
         ui.focus_prompt = true;
       },
       [&session] { return std::string(session.parameters().chat.turns.empty() ? "The chat is empty." : ""); }});
  registry.add({"chat.edit", "Edit a turn of the chat", "Prompt", "", takes(arg::number("turn")),
                [&session] { return !session.parameters().chat.turns.empty() && !session.run_in_progress(); },
                [&session, &ui](const nlohmann::json& arguments) {
                  const auto& turns = session.parameters().chat.turns;
                  int last = static_cast<int>(turns.size()) - 1;
                  while (last > 0 && turns[static_cast<std::size_t>(last)].role != "user") --last;
                  session.next_run().edit_turn(integer_argument(arguments, "turn", last));
                  ui.focus_prompt = true;
                }});
  registry.add({"chat.set", "Change the chat's system prompt or thinking", "Prompt", "",
                takes(arg::text("system"), arg::flag("thinking")), nullptr,
                [&session](const nlohmann::json& arguments) { set_chat(session.next_run(), arguments); }});
  registry.add({"stop.set", "Change the stop texts (they end an answer)", "Prompt", "", takes(arg::list("texts")),
                nullptr, [&session](const nlohmann::json& arguments) { set_stop(session.next_run(), arguments); }});
}

}  // namespace kvscope::app
