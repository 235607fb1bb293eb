#pragma once
// A chat template as a program that is understood whole, and what it makes of messages.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/files/tokenizer/template_run.h"

namespace kvscope {

struct ChatFormat {
  enum class Thinking { none, choice, always };

  std::vector<TemplateNode> program;
  std::optional<std::string> bos;
  std::string name;  // "Qwen2.5": the first model that has such a conversation
  Thinking thinking = Thinking::none;
  bool has_date = false;
  std::string date;  // of the template itself: "26 Jul 2024"
};

/// The format of a template's text, or why it is not understood (for a sentence: "it has ..."). A few conversations are
/// written to find that out.
std::variant<ChatFormat, std::string> recognise_chat_format(std::string_view jinja, std::optional<std::string> bos);

/// A conversation in pieces: markup is one token, text never is. Neighbouring texts are one piece, because words may
/// cross from the frame into what was said ("user\n" and a message that begins with a line end).
struct ChatPiece {
  std::string text;
  bool markup = false;
  std::vector<std::string> frame;  // the parts of a text that the template wrote
};

/// `messages` are not empty. Throws TemplateProblem for what is not understood, TemplateRaised.
std::vector<ChatPiece> write_chat(const ChatFormat& format, std::span<const ChatMessage> messages,
                                  const ChatOptions& options);

}  // namespace kvscope
