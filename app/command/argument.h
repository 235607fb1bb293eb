#pragma once
// What a command takes, declared: help, palette, scripts and what is typed in a line are read from it.

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace kvscope::app {

struct Command;

struct Argument {
  enum class Type : std::uint8_t { text, number, flag, list, object };
  std::string name;
  Type type = Type::text;
  std::string kind;           // what its value is called: "text", "run id", "tokens|keep|compression"
  std::string fallback = {};  // what counts without it: "A", "asks"; empty: nothing does
  bool is_other_way = false;  // it begins another way to call the command: "text: text | path: file"
  bool is_file = false;       // a command that is called without it opens a dialog
};

namespace arg {
Argument text(std::string name, std::string fallback = "", std::string kind = "text");
Argument number(std::string name, std::string fallback = "", std::string kind = "number");
Argument flag(std::string name);
Argument list(std::string name, std::string fallback = "", std::string kind = "list");
Argument object(std::string name, std::string fallback = "");
Argument path(std::string name, std::string fallback = "", std::string kind = "file");
Argument choice(std::string name, std::initializer_list<const char*> values);
Argument otherwise(Argument argument);  // begins another way to call the command
}  // namespace arg

/// The arguments of a command: takes(arg::number("q")).
template <typename... Each>
std::vector<Argument> takes(Each... arguments) {
  return {std::move(arguments)...};
}

/// "layer: number, kv_head: number", "text: text | path: file". `name_of` says what each is called.
std::string description(const std::vector<Argument>& arguments, std::string (*name_of)(const Argument&) = nullptr);
/// All are numbers, and may be given by their order alone: "3 7".
bool takes_order(const std::vector<Argument>& arguments);
/// What was typed as a command's arguments: the value of the only one, "name value, name value", or numbers in their order.
/// Nothing: none. Throws Error (usage) where a part names no argument.
nlohmann::json parse_arguments(const Command& command, const std::string& typed);
/// It does nothing of use without them: it has no key that calls it, no dialog that asks, and an argument without a fallback.
bool asks_arguments(const Command& command);

}  // namespace kvscope::app
