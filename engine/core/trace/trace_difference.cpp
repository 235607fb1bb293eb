// Why two captures cannot be one.

#include <algorithm>

#include "engine/core/trace/trace_file.h"

namespace kvscope {

namespace {

/// The options of a command line, each with its values, as words of a POSIX shell that app's shell_quote() made.
std::vector<std::string> options_of(const std::string& line) {
  std::vector<std::string> options;
  bool quoted = false, at_word = true;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool begins = at_word && !quoted && line.compare(i, 2, "--") == 0;
    if (begins) options.emplace_back();
    at_word = line[i] == ' ' && !quoted;
    if (line[i] == '\'') quoted = !quoted;
    if (line[i] == '\\' && !quoted && i + 1 < line.size()) {  // outside quotes only \' is ever written
      if (!options.empty()) options.back() += line[i];
      ++i;
    }
    if (!options.empty()) options.back() += line[i];
  }
  for (std::string& option : options) option.erase(option.find_last_not_of(' ') + 1);
  return options;
}

std::string name_of(const std::string& option) { return option.substr(0, option.find(' ')); }

std::string option_named(const std::vector<std::string>& options, const std::string& name) {
  const auto found = std::ranges::find(options, name, name_of);
  return found == options.end() ? "no " + name : *found;
}

/// The first option of `a` that `b` has not, or has with another value.
std::optional<TraceDifference> missing_option(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (const std::string& option : a)
    if (std::ranges::find(b, option) == b.end()) return {{name_of(option), option, option_named(b, name_of(option))}};
  return std::nullopt;
}

}  // namespace

std::optional<TraceDifference> capture_difference(const CaptureInfo& a, const CaptureInfo& b) {
  const auto list = [](const CaptureInfo& info) {
    return std::to_string(info.n_prompts) + " prompts (" + info.prompts_hash + ")";
  };
  if (a.n_prompts != b.n_prompts || a.prompts_hash != b.prompts_hash) return {{"prompts", list(a), list(b)}};
  if (a.request == b.request) return std::nullopt;
  const auto of_a = options_of(a.request), of_b = options_of(b.request);
  if (auto difference = missing_option(of_a, of_b)) return difference;
  if (const auto difference = missing_option(of_b, of_a)) return {{difference->what, difference->b, difference->a}};
  return {{"options", a.request, b.request}};
}

}  // namespace kvscope
