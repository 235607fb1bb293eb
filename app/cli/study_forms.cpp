// The forms of the window's studies, made from the commands' own declarations.

#include <algorithm>
#include <array>

#include "app/cli/command_list.h"
#include "app/session/study_form.h"

namespace kvscope::app {
namespace {

struct FormOf {
  std::string_view command, title;
  std::vector<std::pair<std::string_view, std::string_view>> positionals;  // name and help
  std::vector<std::string_view> main;
  std::string_view service = {}, policy = {};  // StudyForm
};

constexpr std::pair<std::string_view, std::string_view> kModel = {"MODEL", "a model's folder or name"};

/// What the window gives by itself, or what makes no sense in a form.
constexpr auto kLeftOut = std::to_array<std::string_view>({"quiet", "json", "format", "dry-run"});

const std::vector<FormOf>& forms() {
  static const std::vector<FormOf> list = {
      {"sweep", "Sweep", {{"RECIPE", "policies, texts and tasks (.json)"}}, {"o", "jobs"}, "job.eval"},
      {"hybrid",
       "Hybrid heads",
       {kModel},
       {"texts", "signal", "policy", "strategies", "shares", "o"},
       "score",
       "hybrid:heads=d"},
      {"eval", "Evaluation", {kModel}, {"tasks", "policies", "texts", "questions", "o"}, "job.eval"},
      {"capture",
       "Capture",
       {kModel, {"PROMPTS", "one prompt per line (.jsonl or text), or a folder of .txt files"}},
       {"policy", "max-tokens", "o"},
       "run"},
  };
  return list;
}

}  // namespace

std::vector<StudyForm> study_forms() {
  std::vector<StudyForm> all;
  for (const FormOf& of : forms()) {
    const CommandSpec& spec = *find_command(of.command);
    StudyForm form{.command = std::string(of.command),
                   .title = std::string(of.title),
                   .summary = std::string(spec.summary),
                   .service = std::string(of.service),
                   .policy = std::string(of.policy)};
    for (const auto& [name, help] : of.positionals)
      form.fields.push_back({.name = std::string(name),
                             .value = std::string(name),
                             .help = std::string(help),
                             .is_positional = true,
                             .is_main = true});
    for (const OptionSpec& option : spec.options) {
      if (std::ranges::find(kLeftOut, option.name) != kLeftOut.end()) continue;
      form.fields.push_back({.name = std::string(option.name),
                             .value = std::string(option.value),
                             .help = std::string(option.help),
                             .repeats = option.repeats,
                             .is_main = std::ranges::find(of.main, option.name) != of.main.end()});
    }
    all.push_back(std::move(form));
  }
  return all;
}

}  // namespace kvscope::app
