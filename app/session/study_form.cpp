#include "app/session/study_form.h"

#include <algorithm>
#include <array>

#include "app/support/usage.h"
#include "engine/core/support/trim.h"

namespace kvscope::app {
namespace {

std::string option_of(const StudyField& field) { return (field.name.size() == 1 ? "-" : "--") + field.name; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (const auto line = trim(std::string_view(text).substr(at, end - at), " \t\r"); !line.empty())
      lines.emplace_back(line);
    at = end + 1;
  }
  return lines;
}

}  // namespace

const StudyField* StudyForm::field(const std::string& name) const {
  const auto found = std::ranges::find(fields, name, &StudyField::name);
  return found == fields.end() ? nullptr : &*found;
}

bool is_path(const StudyField& field) {
  static constexpr std::array<std::string_view, 4> kPaths = {"FILE", "FILE.h5", "PATH|NAME", "FOLDER"};
  return field.is_positional || std::ranges::find(kPaths, field.value) != kPaths.end();
}

std::vector<std::string> study_words(const StudyForm& form, const StudyValues& values) {
  for (const auto& [name, text] : values)
    if (form.field(name) == nullptr) usage_error(name, "not an option of kvscope " + form.command);
  std::vector<std::string> words = {form.command}, options;
  for (const StudyField& field : form.fields) {
    const auto given = values.find(field.name);
    const std::vector<std::string> lines = given == values.end() ? std::vector<std::string>() : lines_of(given->second);
    if (lines.empty() && (field.is_positional || field.name == "o"))
      usage_error(field.is_positional ? field.name : "-o", "empty", field.help);
    if (lines.size() > 1 && !field.repeats) usage_error(field.name, "several lines", "one value");
    for (const std::string& line : lines) {
      if (field.is_positional) {
        words.push_back(line);
      } else if (!field.value.empty()) {
        options.insert(options.end(), {option_of(field), line});
      } else if (line == "on") {
        options.push_back(option_of(field));
      }
    }
  }
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

}  // namespace kvscope::app
