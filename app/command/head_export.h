#pragma once
// Heads of run A into a file that others read: what the menu and the head board share.

#include <nlohmann/json.hpp>
#include <string>

#include "app/command/app_commands.h"
#include "engine/core/study/heads/head_selection.h"

namespace kvscope::app {

/// Of a command that exports heads, after those that it takes besides.
std::vector<Argument> head_export_arguments(std::vector<Argument> before = {});

/// Asks for a path if `arguments` have none, says then what will be written, and writes it beside the window. Throws Error
/// (usage) for a format that is not known or not written.
void export_heads_of_a(Session& session, UiState& ui, const nlohmann::json& arguments, const std::string& command,
                       const HeadSelection& selection, LocalSizes sizes);
/// The same of the heads on the head board, for the command "board.export".
void export_board(Session& session, UiState& ui, const nlohmann::json& arguments);

}  // namespace kvscope::app
