#include "app/cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "app/cli/command_list.h"
#include "app/support/closest.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/standard_input.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxTextBytes = 64u << 20;

const OptionSpec* find_option(const CommandSpec& spec, std::string_view name) {
  const auto it = std::ranges::find(spec.options, name, &OptionSpec::name);
  return it == spec.options.end() ? nullptr : &*it;
}

/// "kvscope run, capture": who has an option of that name with a value; empty if nobody has.
std::string who_takes(std::string_view name) {
  std::string names;
  for (const CommandSpec* command : command_list()) {
    const OptionSpec* option = find_option(*command, name);
    if (option && !option->value.empty()) names += (names.empty() ? "kvscope " : ", ") + std::string(command->name);
  }
  return names;
}

[[noreturn]] void unknown_option(const CommandSpec& spec, std::string_view name, const std::string& typed) {
  std::vector<std::string_view> names;
  for (const OptionSpec& option : spec.options) names.push_back(option.name);
  names.push_back("help");
  const std::string close = closest(name, names);
  const std::string others = who_takes(name);
  const std::string program = spec.name.empty() ? "kvscope" : "kvscope " + std::string(spec.name);
  const std::string help = (others.empty() ? "" : "it is an option of " + others + "; ") + "see " + program + " --help";
  usage_error(typed, "unknown option of " + program, "",
              close.empty() ? help : "did you mean " + dashed(close) + "? " + help);
}

/// Options that say the same thing twice: which one counts, nobody could know.
constexpr std::pair<std::string_view, std::string_view> kOneOf[] = {
    {"prompt", "prompt-ids"}, {"prompt-file", "prompt-ids"}, {"oracle", "no-oracle"}, {"share", "count"},
    {"json", "format"},       {"forced", "chunk"},           {"model", "shape"},      {"resume", "overwrite"},
};

void check_said_once(const Arguments& arguments) {
  for (const auto& [a, b] : kOneOf) {
    if (arguments.has(a) && arguments.has(b)) usage_error(dashed(a) + " and " + dashed(b), "both given", "one of them");
  }
}

}  // namespace

std::string dashed(std::string_view option_name) {
  return (option_name.size() == 1 ? "-" : "--") + std::string(option_name);
}

Arguments Arguments::parse(const CommandSpec& spec, std::span<const std::string> words) {
  Arguments arguments;
  arguments.spec_ = &spec;
  bool only_positionals = false;
  std::map<std::size_t, std::string> behind_flag;  // positional -> the flag that it stands behind
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!only_positionals && word == "--") {
      only_positionals = true;
      continue;
    }
    if (only_positionals || word.size() < 2 || word[0] != '-') {
      const OptionSpec* before =
          i > 0 && words[i - 1].starts_with("--") ? find_option(spec, words[i - 1].substr(2)) : nullptr;
      if (before && before->value.empty()) behind_flag[arguments.positionals_.size()] = before->name;
      arguments.positionals_.push_back(word);
      continue;
    }
    const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    const std::string name =
        word.substr(word.starts_with("--") ? 2 : 1, equals == std::string::npos ? std::string::npos : equals - 2);
    const OptionSpec* option = find_option(spec, name);
    if (!option || word.starts_with("--") != (option->name.size() > 1)) {
      unknown_option(spec, name, word.substr(0, equals));
    }
    std::string value;
    if (option->value.empty()) {
      if (equals != std::string::npos) usage_error(dashed(name), "a value", "no value, because it is a flag");
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < words.size()) {
      value = words[++i];
    } else {
      usage_error(dashed(name), "no value given", std::string(option->value));
    }
    const bool is_first = arguments.values_.emplace(name, value).second;
    if (!is_first && !option->repeats) usage_error(dashed(name), "given twice");
    if (option->repeats) arguments.repeated_[name].push_back(value);
  }
  check_said_once(arguments);
  const int n = static_cast<int>(arguments.positionals_.size());
  const std::string usage = "usage: kvscope " + std::string(spec.name) + " " + std::string(spec.synopsis);
  if (n < spec.positionals.min) usage_error("kvscope " + std::string(spec.name), "too few arguments", "", usage);
  if (n > spec.positionals.max) {
    if (const auto flag = behind_flag.find(static_cast<std::size_t>(spec.positionals.max)); flag != behind_flag.end()) {
      const std::string others = who_takes(flag->second);
      usage_error(dashed(flag->second), in_quotes(arguments.positionals_[flag->first], 80) + " after it",
                  "no value, because it is a flag of kvscope " + std::string(spec.name),
                  others.empty() ? usage : others + " take one");
    }
    usage_error(arguments.positionals_[spec.positionals.max], "one argument too many", "", usage);
  }
  return arguments;
}

std::string Arguments::text(std::string_view name, std::string_view fallback) const {
  const auto it = values_.find(name);
  return it == values_.end() ? std::string(fallback) : it->second;
}

std::vector<std::string> Arguments::texts(std::string_view name) const {
  const auto it = repeated_.find(name);
  return it == repeated_.end() ? std::vector<std::string>() : it->second;
}

std::int64_t Arguments::integer(std::string_view name, std::int64_t fallback, std::int64_t min,
                                std::int64_t max) const {
  const auto it = values_.find(name);
  if (it == values_.end()) return fallback;
  const std::string& text = it->second;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max)
    usage_error(dashed(name), "'" + text + "'",
                "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  return value;
}

double Arguments::real(std::string_view name, double fallback, double min, double max) const {
  const auto it = values_.find(name);
  if (it == values_.end()) return fallback;
  const std::string& text = it->second;
  double value = 0;
  // from_chars, not strtod: a locale with a decimal comma must not change the grammar.
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < min || value > max) {
    char range[80];
    std::snprintf(range, sizeof range, "a number from %g to %g", min, max);
    usage_error(dashed(name), "'" + text + "'", range);
  }
  return value;
}

std::string Arguments::text_or_file(std::string_view name) const {
  const std::string file_option = std::string(name) + "-file";
  if (has(name) == has(file_option))
    usage_error("kvscope " + std::string(spec_->name), has(name) ? "both given" : "neither given",
                "one of " + dashed(name) + " TEXT and " + dashed(file_option) + " FILE");
  if (has(name)) return text(name);
  const std::string path = text(file_option);
  return path == "-" ? read_standard_input(kMaxTextBytes) : read_file(path, kMaxTextBytes);
}

}  // namespace kvscope::app
