#pragma once
// What can be in each place of a command line, read from the declarations of commands and options.

#include <compare>
#include <string>
#include <vector>

#include "app/cli/arguments.h"

namespace kvscope::app {

/// What can be in a place of the command line.
struct Place {
  enum class Kind { nothing, words, models, files, folders } kind = Kind::nothing;
  std::string words = {};  // separated by spaces
  bool is_open = false;    // a word may go on: kvpop:budget=512
  auto operator<=>(const Place&) const = default;
};

Place place_of(const OptionSpec& option);
/// Of the synopsis "TRACE SPEC [--run N]" the places before the first option; the last one repeats.
std::vector<Place> positional_places(const CommandSpec& spec);
/// The commands, and last the window, whose name is empty.
std::vector<const CommandSpec*> all_specs();
/// With what all commands have, and the window more.
std::vector<OptionSpec> options_of(const CommandSpec& spec);

}  // namespace kvscope::app
