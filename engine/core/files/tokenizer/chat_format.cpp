#include "engine/core/files/tokenizer/chat_format.h"

#include <algorithm>

#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

constexpr std::string_view kThink = "<think>", kEndThink = "</think>";

/// Without line ends at the two ends.
std::string_view strip_line_ends(std::string_view text, bool left, bool right) {
  while (left && text.starts_with('\n')) text.remove_prefix(1);
  while (right && text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

/// Python's white space, which is more than the tokenizers': U+001C to U+001F are in it.
bool is_python_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/// As Jinja's trim does.
std::string_view trim(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text, 0);
    if (!c.valid || !is_python_space(c.code_point)) break;
    text.remove_prefix(c.length);
  }
  while (!text.empty()) {
    std::size_t at = text.size() - 1;
    while (at > 0 && text.size() - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    const Utf8Char c = decode_utf8(text, at);
    if (!c.valid || at + c.length != text.size() || !is_python_space(c.code_point)) break;
    text.remove_suffix(c.length);
  }
  return text;
}

/// An assistant's message as what it thought and what it said.
struct Answer {
  std::string_view thought, said;
};
Answer split_thought(std::string_view content) {
  const std::size_t first_end = content.find(kEndThink);
  if (first_end == content.npos) return {{}, content};
  std::string_view thought = strip_line_ends(content.substr(0, first_end), false, true);
  if (const std::size_t begin = thought.rfind(kThink); begin != thought.npos) {
    thought.remove_prefix(begin + kThink.size());
  }
  const std::size_t last_end = content.rfind(kEndThink);
  return {strip_line_ends(thought, true, true),
          strip_line_ends(content.substr(last_end + kEndThink.size()), true, false)};
}

/// The last question of a person; a tool's result is given in a user's name too. The last message if there is none.
std::size_t last_query(std::span<const ChatMessage> messages) {
  for (std::size_t i = messages.size(); i-- > 0;) {
    const std::string_view text = messages[i].content;
    const bool is_result = text.starts_with("<tool_response>") && text.ends_with("</tool_response>");
    if (messages[i].role == "user" && !is_result) return i;
  }
  return messages.size() - 1;
}

void write_thought(ChatPieces& out, std::string_view thought) {
  out.markup(kThink);
  out.text("\n" + std::string(thought) + "\n");
  out.markup(kEndThink);
  out.text("\n\n");
}

/// <|im_start|>role\n ... <|im_end|>\n
std::vector<ChatPiece> write_chatml(const ChatFormat& format, std::span<const ChatMessage> messages,
                                    const ChatOptions& options) {
  ChatPieces out;
  const auto begin = [&](std::string_view role) {
    out.markup("<|im_start|>");
    out.text(std::string(role) + "\n");
  };
  const auto end = [&] {
    out.markup("<|im_end|>");
    out.text("\n");
  };
  if (messages.front().role != "system" && !format.default_system.empty()) {
    begin("system");
    out.text(format.default_system);
    end();
  }
  const bool thinks = format.thinking != ChatFormat::Thinking::none;
  const std::size_t query = last_query(messages);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    begin(messages[i].role);
    if (thinks && messages[i].role == "assistant") {
      const Answer answer = split_thought(messages[i].content);
      const bool shown = i > query && (i + 1 == messages.size() || !answer.thought.empty());
      if (shown) write_thought(out, answer.thought);
      out.text(shown ? strip_line_ends(answer.said, true, false) : answer.said);
    } else {
      out.text(messages[i].content);
    }
    end();
  }
  if (!options.add_generation_prompt) return out.take();
  begin("assistant");
  if (format.thinking == ChatFormat::Thinking::always) {
    out.markup(kThink);
    out.text("\n");
  } else if (format.thinking == ChatFormat::Thinking::choice && !options.thinking.value_or(true)) {
    write_thought(out, "");
  }
  return out.take();
}

/// <|start_header_id|>role<|end_header_id|>\n\n ... <|eot_id|>
std::vector<ChatPiece> write_headers(const ChatFormat& format, std::string_view bos,
                                     std::span<const ChatMessage> messages, const ChatOptions& options) {
  ChatPieces out;
  const auto begin = [&](std::string_view role) {
    out.markup("<|start_header_id|>");
    out.text(role);
    out.markup("<|end_header_id|>");
    out.text("\n\n");
  };
  if (!bos.empty()) out.markup(bos);
  if (format.preamble) {
    begin("system");
    out.text("Cutting Knowledge Date: " + format.knowledge_date + "\n");
    out.text("Today Date: " + (options.date.empty() ? format.date : options.date) + "\n\n");
    if (messages.front().role == "system") {
      out.text(trim(messages.front().content));
      messages = messages.subspan(1);
    }
    out.markup("<|eot_id|>");
  }
  for (const ChatMessage& message : messages) {
    begin(message.role);
    out.text(trim(message.content));
    out.markup("<|eot_id|>");
  }
  if (options.add_generation_prompt) begin("assistant");
  return out.take();
}

/// What systems say, then <｜User｜> ... <｜Assistant｜> ... <｜end▁of▁sentence｜>; an answer without what was thought before it.
std::vector<ChatPiece> write_marks(const ChatFormat& format, std::string_view bos,
                                   std::span<const ChatMessage> messages, const ChatOptions& options) {
  ChatPieces out;
  std::string systems;
  bool first = true;
  for (const ChatMessage& message : messages) {
    if (message.role != "system") continue;
    if (!format.joins_systems) systems.clear();
    systems += (format.joins_systems && !first ? "\n\n" : "") + message.content;
    first = false;
  }
  if (!bos.empty()) out.markup(bos);
  out.text(systems);
  for (const ChatMessage& message : messages) {
    if (message.role == "user") {
      out.markup(kUserMark);
      out.text(message.content);
    } else if (message.role == "assistant") {
      const std::size_t end = message.content.rfind(kEndThink);
      out.markup(kAssistantMark);
      out.text(std::string_view(message.content).substr(end == std::string::npos ? 0 : end + kEndThink.size()));
      out.markup(kEndMark);
    }
  }
  if (!options.add_generation_prompt) return out.take();
  out.markup(kAssistantMark);
  if (format.thinking == ChatFormat::Thinking::always) {
    out.markup(kThink);
    out.text("\n");
  }
  return out.take();
}

}  // namespace

void ChatPieces::text(std::string_view more) {
  if (more.empty()) return;
  if (pieces_.empty() || pieces_.back().markup) pieces_.emplace_back();
  pieces_.back().text += more;
}

std::vector<ChatPiece> write_chat(const ChatFormat& format, std::string_view bos, std::span<const ChatMessage> messages,
                                  const ChatOptions& options) {
  switch (format.turns) {
    case ChatFormat::Turns::chatml:
      return write_chatml(format, messages, options);
    case ChatFormat::Turns::headers:
      return write_headers(format, bos, messages, options);
    case ChatFormat::Turns::marks:
      return write_marks(format, bos, messages, options);
  }
  return {};
}

}  // namespace kvscope
