#include "app/command/argument_line.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "app/support/usage.h"
#include "engine/core/support/trim.h"

namespace kvscope::app {
namespace {

bool is_name(const std::string& text) {
  return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
}

/// As the kind has it: a text stays one, a list is JSON, of all else a number or a truth is one.
nlohmann::json value_of(const Argument& argument, const std::string& text) {
  if (argument.kind.starts_with("text") || argument.kind.starts_with("name") || argument.kind.starts_with("file") ||
      argument.kind.starts_with("what"))
    return text;
  const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  if (argument.kind.starts_with("[")) return value.is_array() ? value : nlohmann::json::array({text});
  return value.is_number() || value.is_boolean() ? value : nlohmann::json(text);
}

/// "3 7", "3, 7": the values alone, in the order in which they are asked for. Nothing where that is not what was typed.
nlohmann::json ordered_values(const std::vector<Argument>& arguments, std::string line) {
  std::ranges::replace(line, ',', ' ');
  std::istringstream words(line);
  nlohmann::json json = nlohmann::json::object();
  std::size_t n = 0;
  for (std::string word; words >> word; ++n) {
    const nlohmann::json value = nlohmann::json::parse(word, nullptr, false);
    if (n == arguments.size() || !value.is_number()) return nlohmann::json::object();
    json[arguments[n].name] = value;
  }
  return json;
}

/// "layer 3, token 7". What follows a comma and names no argument belongs to the value before it.
nlohmann::json named_values(const std::vector<Argument>& arguments, const std::string& line) {
  std::vector<std::pair<const Argument*, std::string>> values;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(',', at), line.size());
    const std::string part(trim(std::string_view(line).substr(at, end - at)));
    const std::size_t space = std::min(part.find(' '), part.size());
    const std::string name = part.substr(0, space);
    auto named = std::ranges::find(arguments, name, &Argument::name);
    if (named == arguments.end())  // its last word alone: "head" of kv_head
      named = std::ranges::find_if(arguments, [&](const Argument& a) { return a.name.ends_with("_" + name); });
    if (named != arguments.end()) {
      values.emplace_back(&*named, trim(std::string_view(part).substr(space)));
    } else if (!values.empty()) {
      values.back().second += line.substr(at - 1, end - at + 1);
    } else {
      usage_error(part, "not an argument of this command", "name value, name value");
    }
    at = end + 1;
  }
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [argument, text] : values) json[argument->name] = value_of(*argument, text);
  return json;
}

}  // namespace

std::vector<Argument> arguments_of(const std::string& description) {
  std::vector<Argument> arguments;
  for (std::size_t at = 0; at < description.size();) {
    const std::size_t end = std::min(description.find_first_of(",|", at), description.size());
    const std::string part(trim(std::string_view(description).substr(at, end - at)));
    const std::size_t colon = std::min(part.find(':'), part.size());
    if (is_name(part.substr(0, colon)))
      arguments.push_back({part.substr(0, colon),
                           std::string(colon < part.size() ? trim(std::string_view(part).substr(colon + 1)) : "")});
    at = end + 1;
  }
  return arguments;
}

bool takes_order(const std::vector<Argument>& arguments) {
  return arguments.size() > 1 && std::all_of(arguments.begin(), arguments.end() - 1,
                                             [](const Argument& argument) { return argument.kind.empty(); });
}

nlohmann::json parse_arguments(const Command& command, const std::string& typed) {
  const std::string line(trim(typed));
  const std::vector<Argument> arguments = arguments_of(command.arguments);
  if (line.empty() || arguments.empty()) return nlohmann::json::object();
  if (takes_order(arguments)) {
    if (nlohmann::json ordered = ordered_values(arguments, line); !ordered.empty()) return ordered;
  }
  if (arguments.size() > 1) return named_values(arguments, line);
  return {{arguments[0].name, value_of(arguments[0], line)}};
}

bool asks_arguments(const Command& command) {
  static constexpr const char* kUseful[] = {"prompt.sample", "run.fork"};  // the next one; at the query on show
  std::string text = command.arguments;
  if (const auto at = text.find("(layer.head)"); at != std::string::npos) text.erase(at);  // explains, is no default
  return !text.empty() && command.shortcut.empty() && !text.starts_with("path:") &&
         text.find('(') == std::string::npos && std::ranges::find(kUseful, command.id) == std::end(kUseful);
}

}  // namespace kvscope::app
