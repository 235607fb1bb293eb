#include "app/cli/run_options.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <type_traits>

#include "app/catalog/given_budgets.h"
#include "app/catalog/prompt_lines.h"
#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/files/tokenizer/stop_strings.h"
#include "engine/core/policy/allocation.h"
#include "engine/core/record/run_fields.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {

std::optional<std::string> system_option(const Arguments& arguments) {
  return arguments.has("system") ? std::optional(arguments.text("system")) : std::nullopt;
}

ChatOptions chat_options(const Arguments& arguments) {
  ChatOptions options{.date = arguments.text("date")};
  if (!arguments.has("thinking")) return options;
  const std::string thinking = arguments.text("thinking");
  if (thinking != "on" && thinking != "off") usage_error("--thinking", in_quotes(thinking), "on or off");
  options.thinking = thinking == "on";
  return options;
}

static std::vector<PolicyChange> planned_changes(const Arguments& arguments) {
  std::vector<PolicyChange> changes;
  for (const std::string& text : arguments.texts("change")) {
    const std::size_t colon = text.find(':');
    std::int32_t q = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + std::min(colon, text.size()), q);
    if (colon == std::string::npos || error != std::errc() || end != text.data() + colon || q < 1)
      usage_error("--change", in_quotes(text),
                  "a query position, a colon and a policy, for example 128:kvpop:budget=256");
    changes.push_back({q, PolicySpec::parse(text.substr(colon + 1))});
  }
  return changes;
}

// Each field has an option of its name.
static SamplingSpec sampling_of(const Arguments& arguments) {
  SamplingSpec sampling;
  visit_fields(sampling, [&](std::string_view field, auto& value, auto range) {
    using Value = std::remove_reference_t<decltype(value)>;
    std::string name(field);
    std::ranges::replace(name, '_', '-');
    if constexpr (std::is_floating_point_v<Value>) {
      value = arguments.real(name, value, range.min, range.max);
    } else {
      std::int64_t max = std::numeric_limits<std::int64_t>::max();
      if constexpr (std::is_same_v<decltype(range), FieldRange>) max = static_cast<std::int64_t>(range.max);
      value = static_cast<Value>(arguments.integer(name, static_cast<std::int64_t>(value), 0, max));
    }
  });
  return sampling;
}

/// Also where the model has a chat template that is refused: that refuses no run that does not ask for a chat.
static bool takes_plain_text(const Arguments& arguments, const std::string& model_path) {
  if (arguments.has("raw")) return true;
  try {
    return !ChatTemplate::find(model_path);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.hint = "the prompt is used as raw text, as with --raw";
    if (!arguments.has("quiet")) std::fprintf(stderr, "warning: %s\n", format_error(parts).c_str());
    return true;
  }
}

std::vector<std::int32_t> budgets_option(const Arguments& arguments, const PolicySpec& policy) {
  if (!arguments.has("budgets")) return {};
  if (policy.declared == nullptr && policy.has("allocation") && policy.value("allocation") != 0)
    usage_error("--budgets", "budgets of heads beside " + policy.to_string(), "allocation=uniform");
  const std::string given = arguments.text("budgets");
  // What holds no letter is the numbers themselves.
  const bool is_text =
      !std::filesystem::exists(given) && given.find_first_not_of("0123456789,; \n") == std::string::npos;
  return is_text ? budgets_of_text(given, "--budgets") : budgets_of_text(given_budgets(given, policy), given);
}

RunRequest run_request(const Arguments& arguments, const std::string& model_path, std::string prompt) {
  const auto has = [&](std::string_view name) { return arguments.has(name); };
  bool is_chat = false;
  for (const char* name : {"chat", "system", "thinking", "date", "messages"}) {
    if (!has(name)) continue;
    is_chat = true;
    if (!has("raw")) continue;
    usage_error("--raw and --" + std::string(name), "both given", "one of them");
  }
  RunRequest request;
  request.prompt = std::move(prompt);
  request.raw = !is_chat && takes_plain_text(arguments, model_path);
  request.chat = chat_options(arguments);
  if (has("system")) request.messages = with_system(arguments.text("system"), {{"user", request.prompt}});
  request.stop = arguments.texts("stop");
  StopStrings{request.stop};  // refuses here what the engine would refuse after loading
  request.policy = PolicySpec::parse(arguments.text("policy", "full"));
  request.budgets = budgets_option(arguments, request.policy);
  request.max_tokens = static_cast<int>(arguments.integer("max-tokens", 64, 0, 1 << 24));
  request.sampling = sampling_of(arguments);
  request.changes = planned_changes(arguments);
  if (has("chunk")) {
    request.chunk = static_cast<int>(arguments.integer("chunk", 1, 1, 1 << 24));
    if (!has("max-tokens")) request.max_tokens = 0;  // what is not drawn counts in no budget
  }
  request.oracle = !has("no-oracle");
  request.oracle_spec = OracleSpec::parse(arguments.text("oracle", ""));
  request.output_error = has("output-error");
  request.stop_at_eos = !has("ignore-eos");
  return request;
}

}  // namespace kvscope::app
