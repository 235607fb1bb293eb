#pragma once
// A command's arguments as one types them in a line: "0.1-3 5.0", "layer 3, token 7".

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/command/commands.h"

namespace kvscope::app {

struct Argument {
  std::string name, kind;  // "heads", "text"
};
/// Of a description as commands have it: "turn: number", "layer, kv_head: numbers", "path: file | text: text".
std::vector<Argument> arguments_of(const std::string& description);
/// All are numbers of one kind, "layer, kv_head, token: numbers", and may be given by their order alone.
bool takes_order(const std::vector<Argument>& arguments);
/// What was typed as a command's arguments: the value of the only one, "name value, name value", or numbers in their order.
/// Nothing: none.
/// Throws Error (usage) where a part names no argument.
nlohmann::json parse_arguments(const Command& command, const std::string& typed);
/// It does nothing of use without them: it has no key that calls it, no dialog that asks, and says no default.
bool asks_arguments(const Command& command);

}  // namespace kvscope::app
