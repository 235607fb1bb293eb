#include "app/cli/declared_policies.h"

#include <algorithm>

#include "app/cli/engine_options.h"
#include "engine/core/policy/declared_policy.h"

namespace kvscope::app {
namespace {

/// Those that are not known yet.
std::vector<std::string> unknown_names(const Arguments& arguments) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view text) {
    std::string name(text.substr(0, text.find(':')));
    if (is_declared_name(name) && find_declared(name) == nullptr) names.push_back(std::move(name));
  };
  for (const OptionSpec& option : arguments.spec().options) {
    if (!arguments.has(option.name) || (option.name != "policy" && option.name != "change")) continue;
    const auto texts = option.repeats ? arguments.texts(option.name) : std::vector{arguments.text(option.name)};
    for (const std::string& text : texts)  // of a change, "128:hf.snapkv:budget=256"
      add(option.name == "policy" ? std::string_view(text) : std::string_view(text).substr(text.find(':') + 1));
  }
  return names;
}

}  // namespace

void learn_policies(Arguments& arguments) {
  if (!arguments.has("engine") || unknown_names(arguments).empty()) return;
  const EngineJobOptions options = engine_options(arguments);
  EngineJob job(options);
  if (!unknown_names(arguments).empty() && !arguments.positionals().empty())
    job.load_with(model_for(options, arguments.positionals()[0]), {});
  arguments.set_started_engine(std::move(job).hand_over());
}

}  // namespace kvscope::app
