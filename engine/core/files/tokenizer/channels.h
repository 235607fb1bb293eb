#pragma once
// An answer in channels, as gpt-oss writes it (OpenAI, "OpenAI Harmony Response Format", 2025).

#include <optional>
#include <string>
#include <string_view>

namespace kvscope {

/// The start of a part of such an answer; a template that writes it takes the parts apart.
inline constexpr std::string_view kChannelMark = "<|channel|>";

struct ChannelAnswer {
  std::string content;   // of the channel final
  std::string thinking;  // of the other channels, a part a line
};

/// The parts of "<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...", of which the end may
/// be missing. Nothing for a text that begins otherwise.
std::optional<ChannelAnswer> read_channels(std::string_view text);

}  // namespace kvscope
