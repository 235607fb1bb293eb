#include "app/cli/completion_places.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "app/cli/command_list.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/figure_style.h"
#include "views/figure/recipe.h"

namespace kvscope::app {
namespace {

template <typename Rows>
std::string names_of(const Rows& rows) {
  std::string names;
  for (const auto& row : rows) names.append(names.empty() ? "" : " ").append(row.name);
  return names;
}

/// The words of "auto|cpu|cuda:N" that are written as they are: those without a capital letter.
std::string literal_words(std::string_view value) {
  std::string words;
  for (std::size_t begin = 0, end; begin <= value.size(); begin = end + 1) {
    end = std::min(value.find('|', begin), value.size());
    const std::string_view word = value.substr(begin, end - begin);
    if (word.empty() || std::ranges::any_of(word, [](unsigned char c) { return std::isupper(c) != 0; })) continue;
    words.append(words.empty() ? "" : " ").append(word);
  }
  return words;
}

Place place_of(std::string_view value) {
  using enum Place::Kind;
  if (const std::string set = literal_words(value); !set.empty()) return {words, set};
  if (value == "SPEC" || value == "POLICY") return {words, names_of(policy_list()), value == "SPEC"};
  if (value == "PRESET") return {words, names_of(views::figure_presets())};
  if (value == "VENUE") return {words, names_of(views::venues())};
  if (value == "METRIC") return {words, names_of(metric_list())};
  if (value == "MODEL") return {models};
  if (value == "FOLDER" || value == "DIR") return {folders};
  const auto has = [&](std::string_view part) { return value.find(part) != std::string_view::npos; };
  return {has("FILE") || has("PATH") ? files : nothing};
}

}  // namespace

Place place_of(const OptionSpec& option) {
  // Its SPEC is not a policy's.
  return option.name == "oracle" ? Place{} : place_of(option.value);
}

std::vector<Place> positional_places(const CommandSpec& spec) {
  std::vector<Place> places;
  const std::string_view text = spec.synopsis;
  for (std::size_t begin = 0, end; begin < text.size() && spec.positionals.max > 0; begin = end + 1) {
    end = std::min(text.find(' ', begin), text.size());
    std::string word(text.substr(begin, end - begin));
    if (word == "|" || word == "[options]" || word.starts_with("-") || word.starts_with("[-")) break;
    std::erase_if(word, [](char c) { return c == '[' || c == ']' || c == '.'; });
    Place place = place_of(word);
    if (place.kind == Place::Kind::nothing) place.kind = Place::Kind::files;
    places.push_back(std::move(place));
  }
  return places;
}

std::vector<const CommandSpec*> all_specs() {
  std::vector<const CommandSpec*> specs(command_list().begin(), command_list().end());
  specs.push_back(&window_command);
  return specs;
}

std::vector<OptionSpec> options_of(const CommandSpec& spec) {
  std::vector<OptionSpec> options(spec.options.begin(), spec.options.end());
  options.push_back({"help", "", "print the help"});
  if (spec.name.empty()) options.push_back({"version", "", "print the version"});
  return options;
}

}  // namespace kvscope::app
