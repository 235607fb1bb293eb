#pragma once
// All commands of the command line. command_list.cpp names them; each is defined in a file of its own.

#include <span>
#include <string>
#include <vector>

#include "app/cli/arguments.h"
#include "app/session/study_form.h"

namespace kvscope::app {

std::span<const CommandSpec* const> command_list();
/// What opens the window; it has no name.
extern const CommandSpec window_command;
const CommandSpec* find_command(std::string_view name);

/// "kvscope --help" and "kvscope COMMAND --help".
std::string general_help();
std::string command_help(const CommandSpec& spec);
/// "kvscope 0.1.0 ..." with the versions of what it is built from.
std::string version_text();

/// The second half of kvscope compare: has the model score the tokens of TRACE's runs under their own policy and under
/// --policy. Returns the exit code.
int compare_policies(const Arguments& arguments);
/// What the window may start: app/session/study_form.h.
std::vector<StudyForm> study_forms();
/// Opens the window with "[MODEL | TRACE] [options]"; the exit code.
int window_main(const std::vector<std::string>& words);
/// Runs `words[0]` with the rest; throws Error.
int run_command_line(std::span<const std::string> words);

}  // namespace kvscope::app
