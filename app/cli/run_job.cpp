#include "app/cli/run_job.h"

#include <cstdio>

#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "engine/core/protocol/events.h"

namespace kvscope::app {

JobEnd run_job(const Arguments& arguments, const std::string& name, const nlohmann::json& args,
               const std::function<bool(const nlohmann::json& row)>& take) {
  EngineJob job(engine_options(arguments));
  const bool json = arguments.has("json");
  const auto done = job.call(protocol::JobRequest{name, args}, [&](const nlohmann::json& event) {
    if (event.value("type", "") != "row") return;
    const nlohmann::json data = event.value("data", nlohmann::json::object());
    if (take && take(data)) return;
    job.progress().clear();
    if (json) {
      write_json_line(data);
    } else {
      std::printf("%s\n", event.value("text", "").c_str());
    }
  });
  job.progress().clear();
  const ExitCode code = protocol::was_cancelled(done) ? ExitCode::cancelled : ExitCode::done;
  return {static_cast<int>(code), done.value("result", nlohmann::json::object())};
}

void print_result(const Arguments& arguments, const nlohmann::json& result) {
  if (arguments.has("json")) {
    write_json_line(result);
  } else if (result.is_object() && result.contains("markdown") && result["markdown"].is_string()) {
    if (const auto table = result["markdown"].get<std::string>(); !table.empty()) std::printf("\n%s", table.c_str());
  }
}

nlohmann::json given_options(const Arguments& arguments, std::initializer_list<const char*> names) {
  nlohmann::json args = nlohmann::json::object();
  for (const char* name : names) {
    if (!arguments.has(name)) continue;
    std::string key = name;
    for (char& c : key) c = c == '-' ? '_' : c;
    const std::string text = arguments.text(name);
    const auto number = nlohmann::json::parse(text, nullptr, false);
    args[key] = number.is_number() ? number : nlohmann::json(text);
  }
  return args;
}

}  // namespace kvscope::app
