#pragma once
#include "app/command/commands.h"
#include "app/command/ui_state.h"
#include "app/session/session.h"

namespace kvscope::app {

/// All commands of the program. The three must outlive the registry's use.
void add_all_commands(CommandRegistry& registry, Session& session, UiState& ui);

// One function per file of commands.
void add_run_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_parameter_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_selection_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_file_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_view_commands(CommandRegistry& registry, Session& session, UiState& ui);

}  // namespace kvscope::app
