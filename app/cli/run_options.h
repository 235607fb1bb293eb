#pragma once
// Options of every command that decodes (policy, length, sampling) or writes a chat.

#include <string>
#include <vector>

#include "app/cli/arguments.h"
#include "engine/core/protocol/protocol.h"

namespace kvscope::app {

inline constexpr OptionSpec kPolicyOption = {"policy", "SPEC",
                                             "NAME:key=value,... (full); kvscope policies lists them"};
inline constexpr OptionSpec kMaxTokensOption = {"max-tokens", "N", "new tokens at most (64)"};
inline constexpr OptionSpec kSeedOption = {"seed", "N", "of the sampling (0)"};
inline constexpr OptionSpec kTemperatureOption = {"temperature", "X", "0 is greedy (0)"};
inline constexpr OptionSpec kTopKOption = {"top-k", "N", "sample from the N likeliest; 0 is all (0)"};
inline constexpr OptionSpec kTopPOption = {"top-p", "X", "sample from the likeliest that sum to X (1)"};
inline constexpr OptionSpec kMinPOption = {"min-p", "X",
                                           "leave out what has less than X times the likeliest's probability (0)"};
inline constexpr OptionSpec kRepetitionPenaltyOption = {"repetition-penalty", "X",
                                                        "above 1 makes seen tokens rarer (1)"};
inline constexpr OptionSpec kNoOracleOption = {"no-oracle", "", "do not compute the future-attention oracle"};
inline constexpr OptionSpec kOracleOption = {"oracle", "SPEC",
                                             "what it goes by: agg=max|mean,mass=mean|sum,lse=dense|sparse,ahead=N"};
inline constexpr OptionSpec kChangeOption = {
    "change", "Q:SPEC", "other policy parameters from query position Q on; may be given again", true};
inline constexpr OptionSpec kIgnoreEosOption = {"ignore-eos", "", "go on after an end-of-text token"};

inline constexpr OptionSpec kStopOption = {"stop", "TEXT", "end the answer before this text; may be given again", true};
inline constexpr OptionSpec kSystemOption = {"system", "TEXT", "the chat's system message"};
inline constexpr OptionSpec kThinkingOption = {"thinking", "on|off",
                                               "of Qwen3: think before the answer (as the model does)"};
inline constexpr OptionSpec kDateOption = {"date", "TEXT", "of Llama 3.1 and later: today (the template's own date)"};

/// A chat's messages as --system has them followed by `messages`. Throws Error (usage) if these have a system message
/// too.
std::vector<ChatMessage> with_system(const Arguments& arguments, std::vector<ChatMessage> messages);
/// What --thinking and --date say. Throws Error (usage).
ChatOptions chat_options(const Arguments& arguments);

/// What the options ask for. A model with a chat template takes the prompt as a chat unless --raw is given, any model
/// if an option of chats is. Throws Error (usage).
RunRequest run_request(const Arguments& arguments, const std::string& model_path, std::string prompt);

}  // namespace kvscope::app
