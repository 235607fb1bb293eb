#include "app/cli/engine_options.h"

#include "app/cli/output.h"

namespace kvscope::app {
namespace {

std::string choice(const Arguments& arguments, std::string_view option,
                   std::initializer_list<std::string_view> allowed) {
  const std::string value = arguments.text(option, *allowed.begin());
  std::string list;
  for (const std::string_view name : allowed) {
    if (name == value) return value;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  usage_error(dashed(option), "'" + value + "'", list);
}

/// A device of a number, or several: the engine knows which there are.
std::string device_of(const Arguments& arguments) {
  const std::string given = arguments.text("device");
  const bool numbered = given.starts_with("cuda:") || given.find(',') != std::string::npos;
  return numbered ? given : choice(arguments, "device", {"auto", "cpu", "cuda", "cuda:N"});
}

}  // namespace

EngineJobOptions engine_options(const Arguments& arguments) {
  return {.engine = arguments.text("engine"),
          .device = device_of(arguments),
          .dtype = choice(arguments, "dtype", {"auto", "float32", "bfloat16"}),
          .gates = arguments.texts("gate"),
          .is_quiet = arguments.has("quiet"),
          .stop = [] { return !stdout_is_well(); },
          .started = arguments.started_engine()};
}

}  // namespace kvscope::app
