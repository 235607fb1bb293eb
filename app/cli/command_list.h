#pragma once
// All commands of the command line; each is defined in a file of its name.

#include <span>
#include <string>

#include "app/cli/arguments.h"

namespace kvscope::app {

const CommandSpec& run_command();
const CommandSpec& capture_command();
const CommandSpec& score_command();
const CommandSpec& tokenize_command();
const CommandSpec& inspect_command();
const CommandSpec& figure_command();
const CommandSpec& heads_command();
const CommandSpec& what_if_command();
const CommandSpec& compare_command();
const CommandSpec& export_command();
const CommandSpec& merge_command();
const CommandSpec& train_command();
const CommandSpec& eval_command();
const CommandSpec& bench_command();
const CommandSpec& doctor_command();

std::span<const CommandSpec* const> command_list();
const CommandSpec* find_command(std::string_view name);

/// "kvscope --help" and "kvscope COMMAND --help".
std::string general_help();
std::string command_help(const CommandSpec& spec);
/// "kvscope 0.1.0 ..." with the versions of what it is built from.
std::string version_text();

/// Runs `words[0]` with the rest; throws Error.
int run_command_line(std::span<const std::string> words);

}  // namespace kvscope::app
