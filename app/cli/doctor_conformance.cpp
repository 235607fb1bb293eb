#include "app/cli/doctor_conformance.h"

#include <algorithm>
#include <cstdio>

#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/conformance/conformance.h"
#include "app/support/paths.h"
#include "app/support/usage.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

using conformance::Check;
using conformance::Outcome;
using nlohmann::ordered_json;

constexpr std::size_t kMostOfLine = 600;

const char* word_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return "ok";
    case Outcome::fails:
      return "fails";
    case Outcome::not_served:
      return "not served";
  }
  return "";
}

void print_check(const Check& check) {
  std::printf("%-10s  %s: %s\n", word_of(check.outcome), escape_for_terminal(check.name).c_str(),
              escape_for_terminal(check.text, kMostOfLine).c_str());
  std::fflush(stdout);
}

ConformanceOptions options_of(const Arguments& arguments) {
  const EngineJobOptions engine = engine_options(arguments);
  const std::string given = arguments.text("model", sample_model().string());
  if (given.empty()) usage_error("--model", "no model, and the sample model was not found", "a name or a folder");
  const std::string model = model_for(engine, given);
  return {.engine = engine.engine,
          .model = model,
          .gates = gates_for(engine, model, {}),
          .device = engine.device,
          .dtype = engine.dtype};
}

}  // namespace

int doctor_conformance(const Arguments& arguments) {
  const bool is_json = arguments.has("json");
  const auto checks = check_conformance(options_of(arguments), [is_json](const Check& check) {
    if (!is_json) print_check(check);
  });
  const auto count = [&](Outcome outcome) { return std::ranges::count(checks, outcome, &Check::outcome); };
  const bool is_well = count(Outcome::fails) == 0;
  if (is_json) {
    ordered_json list = ordered_json::array();
    for (const Check& check : checks)
      list.push_back({{"name", check.name}, {"result", word_of(check.outcome)}, {"text", check.text}});
    write_json_line(ordered_json{{"ok", is_well}, {"checks", list}});
  } else {
    std::printf("%zu checks: %td ok, %td fail, %td not served\n", checks.size(), count(Outcome::ok),
                count(Outcome::fails), count(Outcome::not_served));
  }
  return static_cast<int>(is_well ? ExitCode::done : ExitCode::resource);
}

}  // namespace kvscope::app
