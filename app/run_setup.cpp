#include "app/run_setup.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "app/paths.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

}  // namespace

std::string run_command_line(const std::string& model, const protocol::RunRequest& request) {
  std::string line = "kvscope run " + shell_quote(model);
  line += " --policy " + shell_quote(request.policy.to_string());
  line += " --max-tokens " + std::to_string(request.max_tokens);
  line += " --seed " + std::to_string(request.sampling.seed);
  const SamplingSpec greedy;
  if (request.sampling.temperature != greedy.temperature)
    line += " --temperature " + number(request.sampling.temperature);
  if (request.sampling.top_k != greedy.top_k) line += " --top-k " + std::to_string(request.sampling.top_k);
  if (request.sampling.top_p != greedy.top_p) line += " --top-p " + number(request.sampling.top_p);
  line += request.raw ? " --raw" : " --chat";
  if (!request.oracle) line += " --no-oracle";
  if (!request.stop_at_eos) line += " --ignore-eos";
  return line + " --prompt " + shell_quote(request.prompt);
}

RunRecord start_record(const ModelInfo& model, const protocol::RunRequest& request) {
  RunRecord run;
  run.model = model;
  run.policy = request.policy;
  run.sampling = request.sampling;
  run.prompt_text = request.prompt;
  run.command_line = run_command_line(model.path, request);
  run.started_utc = utc_now();
  return run;
}

bool has_chat_template(const std::filesystem::path& model) {
  try {
    const auto config = read_json(model / "tokenizer_config.json", {.max_bytes = 16u << 20});
    return config.contains("chat_template") && !config["chat_template"].is_null();
  } catch (const Error&) {
    return false;
  }
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace kvscope::app
