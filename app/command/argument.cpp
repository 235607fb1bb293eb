#include "app/command/argument.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "app/command/commands.h"
#include "app/support/usage.h"
#include "engine/core/support/trim.h"

namespace kvscope::app {
namespace {

/// A text stays one, a list is JSON, of all else a number or a truth is one.
nlohmann::json value_of(const Argument& argument, const std::string& text) {
  if (argument.type == Argument::Type::text) return text;
  const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  if (argument.type == Argument::Type::list) return value.is_array() ? value : nlohmann::json::array({text});
  if (argument.type == Argument::Type::object) return value.is_object() ? value : nlohmann::json(text);
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

namespace arg {

Argument text(std::string name, std::string fallback, std::string kind) {
  return {std::move(name), Argument::Type::text, std::move(kind), std::move(fallback)};
}
Argument number(std::string name, std::string fallback, std::string kind) {
  return {std::move(name), Argument::Type::number, std::move(kind), std::move(fallback)};
}
Argument flag(std::string name) { return {std::move(name), Argument::Type::flag, "bool"}; }
Argument list(std::string name, std::string fallback, std::string kind) {
  return {std::move(name), Argument::Type::list, std::move(kind), std::move(fallback)};
}
Argument object(std::string name, std::string fallback) {
  return {std::move(name), Argument::Type::object, "object", std::move(fallback)};
}
Argument path(std::string name, std::string fallback, std::string kind) {
  Argument argument = text(std::move(name), std::move(fallback), std::move(kind));
  argument.is_file = true;
  return argument;
}
Argument choice(std::string name, std::initializer_list<const char*> values) {
  std::string kind;
  for (const char* value : values) kind += (kind.empty() ? "" : "|") + std::string(value);
  return text(std::move(name), "", std::move(kind));
}
Argument otherwise(Argument argument) {
  argument.is_other_way = true;
  return argument;
}

}  // namespace arg

std::string description(const std::vector<Argument>& arguments, std::string (*name_of)(const Argument&)) {
  std::string text;
  for (const Argument& argument : arguments) {
    if (!text.empty()) text += argument.is_other_way ? " | " : ", ";
    text += (name_of ? name_of(argument) : argument.name) + ": " + argument.kind;
    if (!argument.fallback.empty()) text += " (" + argument.fallback + ")";
  }
  return text;
}

bool takes_order(const std::vector<Argument>& arguments) {
  return arguments.size() > 1 && std::ranges::all_of(arguments, [](const Argument& argument) {
           return argument.type == Argument::Type::number && !argument.is_other_way;
         });
}

nlohmann::json parse_arguments(const Command& command, const std::string& typed) {
  const std::string line(trim(typed));
  const std::vector<Argument>& arguments = command.arguments;
  if (line.empty() || arguments.empty()) return nlohmann::json::object();
  if (takes_order(arguments)) {
    if (nlohmann::json ordered = ordered_values(arguments, line); !ordered.empty()) return ordered;
  }
  if (arguments.size() > 1) return named_values(arguments, line);
  return {{arguments[0].name, value_of(arguments[0], line)}};
}

bool asks_arguments(const Command& command) {
  const std::vector<Argument>& all = command.arguments;
  return !all.empty() && command.shortcut.empty() && !all.front().is_file &&
         std::ranges::all_of(all, [](const Argument& argument) { return argument.fallback.empty(); });
}

}  // namespace kvscope::app
