#include "app/session/study_form.h"

#include <algorithm>
#include <array>

#include "app/support/split.h"
#include "app/support/usage.h"

namespace kvscope::app {
namespace {

std::string option_of(const StudyField& field) { return (field.name.size() == 1 ? "-" : "--") + field.name; }

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
    const std::vector<std::string> lines =
        given == values.end() ? std::vector<std::string>() : split(given->second, '\n', " \t\r");
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
