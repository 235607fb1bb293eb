// run.*, preview.*, engine.*: what asks the engine.

#include <algorithm>
#include <set>
#include <utility>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/session/obstacles.h"
#include "engine/core/record/command_line.h"

namespace kvscope::app {
namespace {

void add_decode_commands(CommandRegistry& registry, Session& session) {
  const auto add = [&](const char* id, const char* title, const char* keys, RunKind kind, Action action) {
    registry.add({.id = id,
                  .title = title,
                  .group = "Run",
                  .shortcut = keys,
                  .run = std::move(action),
                  .why_not = [&session, kind] { return why_not(session, kind); }});
  };
  add("run.start", "Run the prompt", "Ctrl+R Ctrl+Enter", RunKind::start, [&session] { session.start_run(); });
  registry.add({"run.cancel", "Stop the run", "Run", "Ctrl+.", takes(),
                [&session] { return session.run_in_progress(); }, [&session] { session.engine().cancel_run(); }});
  registry.add({"run.resume", "Resume the run that the engine cut off", "Run", "", takes(),
                [&session] { return session.can_resume(); }, [&session] { session.resume_run(); }});
  registry.add({"run.apply_policy", "Apply these settings from the next token", "Run", "", takes(),
                [&session] { return session.run_in_progress(); },
                [&session] { session.engine().change_policy(session.parameters().policy); }});
  registry.add({"prompt.shorten", "Shorten the prompt at its end", "Prompt", "", takes(arg::number("tokens")),
                [&session] { return session.next_run().prompt_tokens() > 0; },
                [&session](const nlohmann::json& arguments) {
                  const int now = session.next_run().prompt_tokens();
                  session.next_run().shorten_prompt(integer_argument(arguments, "tokens", now - 1));
                }});
  add("run.decode_again", "Decode again with this policy (measure B)", "Ctrl+Shift+R", RunKind::decode_again,
      [&session] { session.decode_again(); });
  add("run.replay", "Replay A's tokens under this policy", "", RunKind::replay,
      [&session] { session.replay(session.parameters().policy); });
  add("run.replay_as_b", "Replay A's tokens under B's policy", "", RunKind::replay_as_b,
      [&session] { session.replay(session.runs().shown_b()->run->policy.closed()); });
}

// Without ids: the two newest runs, or B out of sight if it is on show.
void compare_runs(Session& session, const nlohmann::json& arguments) {
  const int a = session.runs().a_id(), b = session.runs().b_id();
  if (arguments.contains("a") || arguments.contains("b")) {
    return session.runs().show(integer_argument(arguments, "a", a), integer_argument(arguments, "b", b));
  }
  const auto& runs = session.runs().all();
  int new_b = b != 0 ? 0 : runs.size() > 1 ? runs[runs.size() - 1].id : 0;
  if (new_b == a && new_b != 0) new_b = runs[runs.size() - 2].id;
  session.runs().show(a, new_b);
}

// Of the trace that is named, else of A's; none if A is of no trace.
std::vector<int> runs_of_trace(const Session& session, const nlohmann::json& arguments) {
  std::string trace = session.runs().a() ? session.runs().a()->trace_path : "";
  if (has_argument(arguments, "trace")) trace = text_argument(arguments, "trace");
  std::vector<int> ids;
  for (const RunEntry& run : session.runs().all()) {
    if (!trace.empty() && run.trace_path == trace) ids.push_back(run.id);
  }
  if (ids.empty()) usage_error("trace", "none of its runs is open");
  return ids;
}

void close_trace(Session& session, const nlohmann::json& arguments) {
  for (const int id : runs_of_trace(session, arguments)) session.runs().remove(id);
}

// Beside the one that is A, or the first.
void step_in_trace(Session& session, const nlohmann::json& arguments, int step) {
  const std::vector<int> ids = runs_of_trace(session, arguments);
  const auto at = std::ranges::find(ids, session.runs().a_id());
  const int n = static_cast<int>(ids.size());
  const int next = at == ids.end() ? 0 : std::clamp(static_cast<int>(at - ids.begin()) + step, 0, n - 1);
  const int b = session.runs().b_id();
  session.runs().show(ids[static_cast<std::size_t>(next)], b == ids[static_cast<std::size_t>(next)] ? 0 : b);
}

// A run into the set or out of it, the first one beside A; or all runs of a trace, of which A is one then, and again: A
// alone.
void choose_runs(Session& session, const nlohmann::json& arguments) {
  std::vector<int>& set = session.selection().runs;
  std::set<int> ids(set.begin(), set.end());
  if (has_argument(arguments, "trace")) {
    const std::string trace = text_argument(arguments, "trace");
    const std::set<int> before = std::exchange(ids, {});
    for (const RunEntry& run : session.runs().all()) {
      if (run.trace_path == trace) ids.insert(run.id);
    }
    if (ids == before) ids.clear();
    if (!ids.empty() && !ids.contains(session.runs().a_id())) session.runs().show(*ids.begin(), 0);
  } else {
    const int id = integer_argument(arguments, "id", 0);
    if (!session.runs().find(id)) usage_error("id", "no run " + std::to_string(id));
    if (ids.empty() && session.runs().a()) ids.insert(session.runs().a()->id), ids.erase(id);
    if (ids.erase(id) == 0) ids.insert(id);
  }
  set.assign(ids.begin(), ids.end());
  if (!ids.empty() && session.runs().chosen().empty()) session.runs().show(*ids.begin(), 0);
}

void add_list_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  const auto any = [&session] { return !session.runs().all().empty(); };
  // Not of A alone: a trace's line in the list says which trace it means.
  const auto no_trace = [&session]() -> std::string {
    const bool is_there =
        std::ranges::any_of(session.runs().all(), [](const RunEntry& run) { return !run.trace_path.empty(); });
    return is_there ? "" : "There is no run from a trace in the list.";
  };
  registry.add({"run.compare", "Compare two runs", "Run", "",
                takes(arg::number("a", "", "run id"), arg::number("b", "", "run id")), any,
                [&session](const nlohmann::json& arguments) { compare_runs(session, arguments); }});
  registry.add(
      {"run.show", "Show a run as A", "Run", "", takes(arg::number("id", "", "run id")), any,
       [&session](const nlohmann::json& arguments) { session.runs().show(integer_argument(arguments, "id", 0), 0); }});
  registry.add({"runs.choose", "Choose several runs", "Run", "",
                takes(arg::number("id", "", "run id"), arg::otherwise(arg::path("trace", "", "path"))), any,
                [&session](const nlohmann::json& arguments) { choose_runs(session, arguments); }});
  registry.add({"run.swap", "Swap A and B", "Run", "X", takes(), [&session] { return session.runs().b() != nullptr; },
                [&session] { session.runs().swap(); }});
  registry.add({"run.next_in_trace", "Next run of A's trace", "Run", "", takes(arg::path("trace", "A's", "path")), any,
                [&session](const nlohmann::json& arguments) { step_in_trace(session, arguments, 1); }, no_trace});
  registry.add({"run.previous_in_trace", "Previous run of A's trace", "Run", "",
                takes(arg::path("trace", "A's", "path")), any,
                [&session](const nlohmann::json& arguments) { step_in_trace(session, arguments, -1); }, no_trace});
  registry.add({"run.rename", "Name a run", "Run", "F2",
                takes(arg::number("id", "A", "run id"), arg::text("name", "asks")), any,
                [&session, &ui](const nlohmann::json& arguments) {
                  const int id = integer_argument(arguments, "id", session.runs().a_id());
                  if (has_argument(arguments, "name"))
                    return session.runs().rename(id, text_argument(arguments, "name"));
                  if (!session.runs().find(id)) usage_error("id", "no run " + std::to_string(id));
                  ui.renaming = id;
                  ui.left = true;  // where the list is
                }});
  registry.add({"run.remove", "Remove a run from the list", "Run", "", takes(arg::number("id", "A", "run id")), any,
                [&session](const nlohmann::json& arguments) {
                  session.runs().remove(integer_argument(arguments, "id", session.runs().a_id()));
                }});
  registry.add({"trace.close", "Close a trace (removes its runs from the list)", "Run", "",
                takes(arg::path("trace", "A's", "path")), any,
                [&session](const nlohmann::json& arguments) { close_trace(session, arguments); }});
}

void add_preview_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  registry.add({"run.copy_command", "Copy A as a command", "Run", "Ctrl+Shift+C",
                takes(arg::number("id", "A", "run id")), [&session] { return session.runs().a() != nullptr; },
                [&session, &ui](const nlohmann::json& arguments) {
                  const int id = integer_argument(arguments, "id", session.runs().a()->id);
                  const RunEntry* entry = session.runs().find(id);
                  if (!entry) usage_error("id", "no run " + std::to_string(id));
                  if (!has_command(*entry->run))
                    usage_error("run", "it has no command: its trace has none, or it has too many tokens for one line");
                  ui.clipboard = command_line(*entry->run);
                  session.messages().notify("copied the command of run " + std::to_string(id));
                  return ui.clipboard;
                }});
  registry.add({"prompt.copy_command", "Copy the next run as a command", "Run", "", takes(), nullptr, [&session, &ui] {
                  ui.clipboard = session.command_line();
                  session.messages().notify("copied the command for the current settings");
                  return ui.clipboard;
                }});
  registry.add({"preview.apply", "Preview this policy on A's scores", "Run", "", takes(),
                [&session] { return session.runs().shown_a() != nullptr; },
                [&session] { session.policy().request_preview(); }});
  registry.add({"preview.discard", "Back to A's policy", "Run", "", takes(),
                [&session] { return session.runs().shown_a() != nullptr; },
                [&session] { session.policy().set(session.runs().shown_a()->run->policy); }});
  registry.add(
      {"engine.restart", "Restart the engine", "Run", "", takes(), nullptr, [&session] { session.restart_engine(); }});
}

}  // namespace

void add_run_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  add_decode_commands(registry, session);
  add_list_commands(registry, session, ui);
  add_preview_commands(registry, session, ui);
}

}  // namespace kvscope::app
