#include "app/cli/run_options.h"

#include <limits>

#include "app/run_setup.h"
#include "engine/core/support/error.h"

namespace kvscope::app {

protocol::RunRequest run_request(const Arguments& arguments, const std::string& model_path, std::string prompt) {
  const auto has = [&](std::string_view name) { return arguments.has(name); };
  if (has("raw") && has("chat")) {
    throw Error(
        {.code = ExitCode::usage, .file = "--raw and --chat", .found = "both given", .expected = "one of them"});
  }
  protocol::RunRequest request;
  request.prompt = std::move(prompt);
  request.raw = has("raw") || (!has("chat") && !has_chat_template(model_path));
  request.policy = PolicySpec::parse(arguments.text("policy", "full"));
  request.max_tokens = static_cast<int>(arguments.integer("max-tokens", 64, 0, 1 << 24));
  request.sampling.seed =
      static_cast<std::uint64_t>(arguments.integer("seed", 0, 0, std::numeric_limits<std::int64_t>::max()));
  request.sampling.temperature = arguments.real("temperature", 0, 0, 100);
  request.sampling.top_k = static_cast<int>(arguments.integer("top-k", 0, 0, 1 << 24));
  request.sampling.top_p = arguments.real("top-p", 1, 0, 1);
  request.oracle = !has("no-oracle");
  request.stop_at_eos = !has("ignore-eos");
  return request;
}

}  // namespace kvscope::app
