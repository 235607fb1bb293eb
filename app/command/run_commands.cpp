// run.*, preview.*, engine.*: what asks the engine.

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"

namespace kvscope::app {
namespace {

void add_decode_commands(CommandRegistry& registry, Session& session) {
  const auto idle = [&session] { return session.engine().model() && session.engine().state() == EngineState::ready; };
  const auto idle_with_a = [&session, idle] { return idle() && session.shown_a() != nullptr; };
  registry.add({.id = "run.start",
                .title = "Run the prompt",
                .group = "Run",
                .shortcut = "Ctrl+R Ctrl+Enter",
                .enabled = idle,
                .run = [&session] { session.start_run(); }});
  registry.add({.id = "run.cancel",
                .title = "Cancel the run",
                .group = "Run",
                .shortcut = "Ctrl+.",
                .enabled = [&session] { return session.run_in_progress(); },
                .run = [&session] { session.engine().cancel_run(); }});
  registry.add({.id = "run.apply_policy",
                .title = "Go on with these parameters from the next token",
                .group = "Run",
                .enabled = [&session] { return session.run_in_progress(); },
                .run = [&session] { session.engine().change_policy(session.parameters().policy); }});
  registry.add({.id = "run.decode_again",
                .title = "Decode again with this policy (measure B)",
                .group = "Run",
                .shortcut = "Ctrl+Shift+R",
                .enabled = idle_with_a,
                .run = [&session] { session.decode_again(); }});
  registry.add({.id = "run.replay",
                .title = "Replay A's tokens under this policy",
                .group = "Run",
                .enabled = idle_with_a,
                .run = [&session] { session.replay(); }});
}

// Without ids: the two newest runs, or B out of sight if it is on show.
void compare_runs(Session& session, const nlohmann::json& arguments) {
  const int a = session.a() ? session.a()->id : 0, b = session.b() ? session.b()->id : 0;
  if (arguments.contains("a") || arguments.contains("b")) {
    return session.show(integer_argument(arguments, "a", a), integer_argument(arguments, "b", b));
  }
  const auto& runs = session.runs();
  int new_b = b != 0 ? 0 : runs.size() > 1 ? runs[runs.size() - 1].id : 0;
  if (new_b == a && new_b != 0) new_b = runs[runs.size() - 2].id;
  session.show(a, new_b);
}

void add_list_commands(CommandRegistry& registry, Session& session) {
  const auto any = [&session] { return !session.runs().empty(); };
  registry.add({.id = "run.compare",
                .title = "Compare two runs",
                .group = "Run",
                .arguments = "a: run id, b: run id",
                .enabled = any,
                .run = [&session](const nlohmann::json& arguments) { compare_runs(session, arguments); }});
  registry.add(
      {.id = "run.show",
       .title = "Show a run as A",
       .group = "Run",
       .arguments = "id: run id",
       .enabled = any,
       .run = [&session](const nlohmann::json& arguments) { session.show(integer_argument(arguments, "id", 0), 0); }});
  registry.add({.id = "run.swap",
                .title = "Swap A and B",
                .group = "Run",
                .shortcut = "X",
                .enabled = [&session] { return session.b() != nullptr; },
                .run = [&session] { session.swap(); }});
  registry.add({.id = "run.remove",
                .title = "Remove a run from the list",
                .group = "Run",
                .arguments = "id: run id (A)",
                .enabled = any,
                .run = [&session](const nlohmann::json& arguments) {
                  session.remove_run(integer_argument(arguments, "id", session.a() ? session.a()->id : 0));
                }});
}

void add_preview_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  registry.add({.id = "run.copy_command",
                .title = "Copy as command",
                .group = "Run",
                .shortcut = "Ctrl+Shift+C",
                .run = [&session, &ui] {
                  ui.clipboard = session.command_line();
                  session.messages().notify("copied the command that does this run");
                  return ui.clipboard;
                }});
  registry.add({.id = "preview.apply",
                .title = "Preview this policy on A's scores",
                .group = "Run",
                .enabled = [&session] { return session.shown_a() != nullptr; },
                .run = [&session] { session.request_preview(); }});
  registry.add({.id = "preview.discard",
                .title = "Back to A's policy",
                .group = "Run",
                .enabled = [&session] { return session.shown_a() != nullptr; },
                .run = [&session] { session.set_policy(session.shown_a()->run->policy); }});
  registry.add({.id = "engine.restart", .title = "Restart the engine", .group = "Run", .run = [&session] {
                  session.restart_engine();
                }});
}

}  // namespace

void add_run_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  add_decode_commands(registry, session);
  add_list_commands(registry, session);
  add_preview_commands(registry, session, ui);
}

}  // namespace kvscope::app
