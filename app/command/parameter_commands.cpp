// prompt.*, policy.*, sampling.*: what the next run will be.

#include <cmath>
#include <type_traits>

#include "app/catalog/given_budgets.h"
#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/session/match_a.h"
#include "app/support/paths.h"
#include "engine/core/record/run_fields.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxTypedBytes = 16u << 20;

// {"policy": text}, or {"parameter": name, "value": number}, or {"budget": value, "kind":
// "tokens"|"keep"|"compression"}.
PolicySpec changed_policy(const PolicySpec& old, const nlohmann::json& arguments) {
  if (has_argument(arguments, "policy")) return PolicySpec::parse(text_argument(arguments, "policy"));
  PolicySpec policy = old;
  if (has_argument(arguments, "parameter")) {
    const std::string name = text_argument(arguments, "parameter");
    const auto it = policy.values.find(name);
    if (it == policy.values.end()) usage_error(name, "no parameter of " + policy.name);
    policy.unwritten.erase(name);
    it->second = number_argument(arguments, "value") + 0.0;  // -0 would print as another text than 0
  }
  if (has_argument(arguments, "budget")) {
    if (!policy.budget) usage_error("budget", policy.name + " has none");
    policy.budget->value = number_argument(arguments, "budget");
    if (has_argument(arguments, "kind")) {
      const std::string kind = text_argument(arguments, "kind");
      if (kind != "tokens" && kind != "keep" && kind != "compression")
        bad_argument("kind", "tokens, keep or compression");
      policy.budget->kind = kind == "tokens" ? BudgetSpec::Kind::tokens
                            : kind == "keep" ? BudgetSpec::Kind::keep
                                             : BudgetSpec::Kind::compression;
    }
  }
  policy.check();
  return policy;
}

void set_sampling(Session& session, const nlohmann::json& arguments) {
  constexpr FieldRange seeds{0, 9e15 - 1};  // JSON's numbers are doubles: whole up to there
  SamplingSpec sampling = session.parameters().sampling;
  bool ok = true;
  visit_fields(sampling, [&](std::string_view name, auto& value, auto range) {
    using Value = std::remove_reference_t<decltype(value)>;
    FieldRange bounds = seeds;
    if constexpr (std::is_same_v<decltype(range), FieldRange>) bounds = range;
    const double x = number_argument(arguments, std::string(name).c_str(), static_cast<double>(value));
    ok &= x >= bounds.min && x <= bounds.max && (std::is_floating_point_v<Value> || x == std::floor(x));
    if (ok) value = static_cast<Value>(x);
  });
  if (!ok)
    usage_error("sampling", arguments.dump(),
                "temperature 0 to 100, top_p and min_p 0 to 1, repetition_penalty 0.01 to 100, top_k and "
                "seed 0 or more");
  session.next_run().set_sampling(sampling);
}

// `chat` alone keeps the text and says how the model gets it.
void set_prompt(NextRun& next, const nlohmann::json& arguments) {
  const bool chat = has_argument(arguments, "chat");
  if (has_argument(arguments, "path")) {
    next.set_prompt(read_text_file(text_argument(arguments, "path"), kMaxTypedBytes));
  } else if (has_argument(arguments, "text") || !chat) {
    next.set_prompt(text_argument(arguments, "text"));
  }
  if (!chat) return;
  const bool wants_chat = flag_argument(arguments, "chat", false);
  if (wants_chat && !next.chat_refusal().empty()) usage_error("chat", next.chat_refusal(), "chat: false");
  next.set_raw(!wants_chat);
}

}  // namespace

void add_parameter_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  registry.add({"prompt.set", "Set the prompt", "Prompt", "",
                takes(arg::text("text"), arg::otherwise(arg::path("path")), arg::flag("chat")), nullptr,
                [&session](const nlohmann::json& arguments) { set_prompt(session.next_run(), arguments); }});
  registry.add({"prompt.focus", "Type a prompt", "Prompt", "Ctrl+P", takes(), nullptr,
                [&ui] { ui.left = true, ui.focus_prompt = true, ui.maximised.clear(); }});
  registry.add({"prompt.sample", "Next sample prompt", "Prompt", "", takes(arg::number("index", "the next one")),
                [&session] { return !sample_prompts(!session.parameters().raw).empty(); },
                [&session, next = 0](const nlohmann::json& arguments) mutable {
                  const auto& prompts = sample_prompts(!session.parameters().raw);
                  const int index = integer_argument(arguments, "index", next);
                  next = index + 1;
                  const auto& path = prompts[static_cast<std::size_t>(std::abs(index)) % prompts.size()];
                  session.next_run().set_prompt(read_text_file(path, kMaxTypedBytes));
                  return path.string();
                }});
  registry.add({"policy.set", "Change the policy", "Policy", "",
                takes(arg::text("policy"), arg::text("gate", "", "name"),
                      arg::otherwise(arg::text("parameter", "", "name")), arg::number("value"),
                      arg::otherwise(arg::number("budget")), arg::choice("kind", {"tokens", "keep", "compression"})),
                nullptr, [&session](const nlohmann::json& arguments) {
                  const PolicySpec policy = changed_policy(session.parameters().policy, arguments);
                  // First, so that no other gate is loaded for the policy meanwhile.
                  if (has_argument(arguments, "gate")) session.policy().use_gate(text_argument(arguments, "gate"));
                  session.policy().set(policy);
                  return session.parameters().policy.to_string();
                }});
  registry.add({"policy.budgets", "Set the budgets of heads", "Policy", "",
                takes(arg::path("path"), arg::otherwise(arg::text("text"))), nullptr,
                [&session](const nlohmann::json& arguments) {
                  session.policy().set_budgets(
                      has_argument(arguments, "path")
                          ? given_budgets(text_argument(arguments, "path"), session.parameters().policy)
                          : text_argument(arguments, "text"));
                }});
  registry.add(
      {"policy.one_budget", "Give all heads one budget", "Policy", "", takes(), nullptr,
       [&session](const nlohmann::json&) { session.policy().set_budgets(""); },
       [&session] { return session.parameters().budgets.empty() ? std::string("all heads have one budget") : ""; }});
  registry.add({.id = "policy.match_cache",
                .title = "Match A's cache size",
                .group = "Policy",
                .run = [&session] { session.messages().notify(match_a(session)); },
                .why_not = [&session] { return why_no_match(session); }});
  registry.add({"run.max_tokens", "Set how many tokens to generate", "Run", "", takes(arg::number("n")), nullptr,
                [&session](const nlohmann::json& arguments) {
                  session.next_run().set_max_tokens(integer_argument(arguments, "n", session.parameters().max_tokens));
                }});
  registry.add(
      {"run.output_error", "Measure output error in new runs (on or off)", "Run", "", takes(arg::flag("on")), nullptr,
       [&session](const nlohmann::json& arguments) {
         const bool on = flag_argument(arguments, "on", !session.parameters().output_error);
         session.next_run().set_output_error(on);
         return std::string(on ? "output error is measured in new runs" : "output error is not measured in new runs");
       },
       [&session] { return why_not_measurable(session.parameters().policy); }});
  registry.add({"run.measure_output_error", "Measure output error in the next run", "Run", "", takes(), nullptr,
                [&session](const nlohmann::json&) {
                  session.next_run().set_output_error(true);
                  session.messages().notify("output error is measured in the next run");
                },
                [&session] { return why_not_measurable(session.parameters().policy); }});
  registry.add({"sampling.set", "Change the sampling", "Policy", "",
                takes(arg::number("temperature"), arg::number("top_k"), arg::number("top_p"), arg::number("min_p"),
                      arg::number("repetition_penalty"), arg::number("seed")),
                nullptr, [&session](const nlohmann::json& arguments) { set_sampling(session, arguments); }});
}

}  // namespace kvscope::app
