#pragma once
// Options of every command that decodes (policy, length, sampling) or writes a chat.

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/arguments.h"
#include "app/cli/engine_options.h"
#include "engine/core/protocol/protocol.h"

namespace kvscope::app {

inline constexpr OptionSpec kSystemOption = {"system", "TEXT", "system message of the chat"};
inline constexpr OptionSpec kThinkingOption = {"thinking", "on|off",
                                               "think before the answer, if the model has the choice (model default)"};
inline constexpr OptionSpec kDateOption = {"date", "TEXT",
                                           "date of the chat, if its template has one (the template's date)"};

inline constexpr OptionSpec kBudgetsOption = {
    "budgets", "FILE", "how many tokens each head may hold, a line per layer, or a hybrid study's shares (FILE#POINT)"};

inline constexpr auto kLengthAndSamplingOptions = std::to_array<OptionSpec>({
    {"policy", "SPEC", "NAME:key=value,... (full); kvscope policies lists them"},
    kBudgetsOption,
    {"max-tokens", "N", "maximum number of new tokens (64)"},
    {"seed", "N", "seed of the sampling (0)"},
    {"temperature", "X", "0 is greedy (0)"},
    {"top-k", "N", "sample from the N most probable tokens; 0 is all (0)"},
    {"top-p", "X", "sample from the most probable tokens that sum to X (1)"},
    {"min-p", "X", "drop tokens less probable than X times the most probable one (0)"},
    {"repetition-penalty", "X", "above 1 makes tokens that already occurred less likely (1)"},
});
inline constexpr auto kChatOptions = std::to_array<OptionSpec>({
    kSystemOption,
    kThinkingOption,
    kDateOption,
    {"stop", "TEXT", "end the answer before this text; repeatable", true},
});
inline constexpr auto kOracleOptions = std::to_array<OptionSpec>({
    {"no-oracle", "", "do not compute the future-attention oracle"},
    kOracleOption,
    kOutputErrorOption,
});
inline constexpr OptionSpec kChangeOption = {"change", "Q:SPEC",
                                             "use other policy parameters from query position Q; repeatable", true};
/// `device`: kDeviceOption or kDevicesOption.
constexpr auto decoding_engine_options(const OptionSpec& device) {
  return std::to_array<OptionSpec>({
      kGateOption,
      {"ignore-eos", "", "continue after an end-of-text token"},
      device,
      kDtypeOption,
      kEngineOption,
      kQuietOption,
  });
}

/// One list of several, in the order in which the help shows them.
template <std::size_t... N>
constexpr auto joined(const std::array<OptionSpec, N>&... lists) {
  std::array<OptionSpec, (N + ...)> all;
  auto end = all.begin();
  ((end = std::ranges::copy(lists, end).out), ...);
  return all;
}

/// What --system says; nothing without it.
std::optional<std::string> system_option(const Arguments& arguments);
/// What --thinking and --date say. Throws Error (usage).
ChatOptions chat_options(const Arguments& arguments);

/// What --budgets says, [n_layers * n_kv_heads]; empty without it. Throws Error: (usage) beside an allocation of the policy,
/// (bad input) for a file that cannot be read.
std::vector<std::int32_t> budgets_option(const Arguments& arguments, const PolicySpec& policy);

/// What the options ask for. A model with a chat template takes the prompt as a chat unless --raw is given, any model
/// if an option of chats is. Throws Error (usage).
RunRequest run_request(const Arguments& arguments, const std::string& model_path, std::string prompt);

}  // namespace kvscope::app
