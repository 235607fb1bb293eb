#include "app/cli/declared_policies.h"

#include <algorithm>

#include "app/cli/engine_options.h"
#include "app/session/study_form.h"
#include "app/support/split.h"
#include "app/support/usage.h"
#include "engine/core/policy/declared_policy.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

bool is_sweep(const Arguments& arguments) { return arguments.spec().name == "sweep"; }

/// The policies of a sweep's recipe; none of one that cannot be read, which the sweep refuses.
std::vector<std::string> policies_of(const std::string& recipe) {
  std::vector<std::string> texts;
  try {
    const nlohmann::json object = read_json(recipe);
    for (const nlohmann::json& entry : object.at("policies"))
      texts.push_back((entry.is_string() ? entry : entry.at("policy")).get<std::string>());
  } catch (const std::exception&) {
  }
  return texts;
}

/// Those that are not known yet.
std::vector<std::string> unknown_names(const Arguments& arguments) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view text) {
    std::string name(text.substr(0, text.find(':')));
    if (is_declared_name(name) && find_declared(name) == nullptr) names.push_back(std::move(name));
  };
  for (const OptionSpec& option : arguments.spec().options) {
    const bool is_list = option.name == "policies";
    if (!arguments.has(option.name) || (option.name != "policy" && option.name != "change" && !is_list)) continue;
    const auto texts = is_list          ? split(arguments.text(option.name), ';', " ")
                       : option.repeats ? arguments.texts(option.name)
                                        : std::vector{arguments.text(option.name)};
    for (const std::string& text : texts)  // of a change, "128:hf.snapkv:budget=256"
      add(option.name != "change" ? std::string_view(text) : std::string_view(text).substr(text.find(':') + 1));
  }
  if (is_sweep(arguments))
    for (const std::string& text : policies_of(arguments.positionals()[0])) add(text);
  return names;
}

/// An engine that cannot do what the command needs is refused before its policies matter.
void check_service(const Arguments& arguments, const protocol::EngineOffer& offer) {
  const auto forms = study_forms();
  const auto form = std::ranges::find(forms, arguments.spec().name, &StudyForm::command);
  if (form == forms.end()) return;
  if (const std::string why = protocol::why_no_service(offer, form->service); !why.empty()) usage_error("engine", why);
}

}  // namespace

void learn_policies(Arguments& arguments) {
  if (!arguments.has("engine") || unknown_names(arguments).empty()) return;
  const EngineJobOptions options = engine_options(arguments);
  EngineJob job(options);
  check_service(arguments, job.offer());
  if (!is_sweep(arguments) && !unknown_names(arguments).empty() && !arguments.positionals().empty())
    job.load_with(model_for(options, arguments.positionals()[0]), {});
  arguments.set_started_engine(std::move(job).hand_over());
}

}  // namespace kvscope::app
