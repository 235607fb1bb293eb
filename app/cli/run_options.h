#pragma once
// Options of every command that decodes: policy, length and sampling.

#include <string>

#include "app/cli/arguments.h"
#include "engine/core/protocol/protocol.h"

namespace kvscope::app {

inline constexpr OptionSpec kPolicyOption = {"policy", "SPEC", "NAME:key=value,... (full)"};
inline constexpr OptionSpec kMaxTokensOption = {"max-tokens", "N", "new tokens at most (64)"};
inline constexpr OptionSpec kSeedOption = {"seed", "N", "of the sampling (0)"};
inline constexpr OptionSpec kTemperatureOption = {"temperature", "X", "0 is greedy (0)"};
inline constexpr OptionSpec kTopKOption = {"top-k", "N", "sample from the N likeliest; 0 is all (0)"};
inline constexpr OptionSpec kTopPOption = {"top-p", "X", "sample from the likeliest that sum to X (1)"};
inline constexpr OptionSpec kNoOracleOption = {"no-oracle", "", "do not compute the future-attention oracle"};
inline constexpr OptionSpec kIgnoreEosOption = {"ignore-eos", "", "go on after an end-of-text token"};

/// What the options ask for. A model with a chat template takes the prompt as a chat unless --raw is given. Throws
/// Error (usage).
protocol::RunRequest run_request(const Arguments& arguments, const std::string& model_path, std::string prompt);

}  // namespace kvscope::app
