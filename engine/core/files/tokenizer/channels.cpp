#include "engine/core/files/tokenizer/channels.h"

#include <algorithm>

namespace kvscope {
namespace {

constexpr std::string_view kMessage = "<|message|>";

/// Up to the first mark that ends a message.
std::string_view body_of(std::string_view text) {
  std::size_t end = text.size();
  for (const std::string_view mark : {"<|end|>", "<|return|>", "<|call|>", "<|start|>"})
    end = std::min(end, text.find(mark));
  return text.substr(0, end);
}

}  // namespace

std::optional<ChannelAnswer> read_channels(std::string_view text) {
  if (!text.starts_with(kChannelMark)) return {};
  ChannelAnswer answer;
  for (std::size_t at = 0; at != std::string_view::npos; at = text.find(kChannelMark)) {
    text.remove_prefix(at + kChannelMark.size());
    const std::size_t message = text.find(kMessage);
    if (message == std::string_view::npos) break;  // cut off before the part's text
    const bool is_final = text.substr(0, message).starts_with("final");
    text.remove_prefix(message + kMessage.size());
    const std::string_view body = body_of(text);
    std::string& part = is_final ? answer.content : answer.thinking;
    if (!part.empty() && !body.empty()) part += '\n';
    part += body;
    text.remove_prefix(body.size());
  }
  return answer;
}

}  // namespace kvscope
