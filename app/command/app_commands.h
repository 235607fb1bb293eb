#pragma once
// The lists of commands, by subject.

#include "app/command/commands.h"
#include "app/command/ui_state.h"
#include "app/session/session.h"
#include "app/workspace/workspace.h"
#include "views/frame/view.h"

namespace kvscope::app {

/// All commands of the program. What they are given must outlive the registry's use.
void add_all_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views);

/// Undo and what is kept, and the look around every command that Undo needs. The workspace must outlive the registry's use.
void add_workspace_commands(CommandRegistry& registry, Workspace& workspace);

/// A command that needs a path asks for one if it is called without; true if it asked. The answer calls the command
/// again, with the same arguments and the path.
bool ask_for_path(UiState& ui, const nlohmann::json& arguments, FileDialog dialog);

/// Whoever has opened a study wants to see it: in the place of the last view of the row, unless it is there.
void show_study_view(UiState& ui, const views::ViewList& views);

/// The record of run A as it is shown; only where there is a run A.
inline const RunRecord& run_of(const Session& session) { return *session.runs().shown_a()->run; }

/// "900", "t 812", "l3 h1 q900" as the arguments of go.to. Throws Error (usage).
nlohmann::json parse_place(const std::string& text);

// One function per file of commands.
void add_run_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_parameter_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_chat_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_selection_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_span_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_difference_commands(CommandRegistry& registry, Session& session);
void add_find_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_pin_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_film_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views);
void add_file_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views);
void add_study_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views);
void add_study_job_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_board_commands(CommandRegistry& registry, Session& session, UiState& ui);
void add_export_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views);
void add_view_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views);
void add_own_layout_commands(CommandRegistry& registry, UiState& ui);

}  // namespace kvscope::app
