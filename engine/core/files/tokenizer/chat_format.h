#pragma once
// How the families write a conversation: what a chat template is recognised as, and what it makes of messages.

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/core/files/tokenizer/chat.h"

namespace kvscope {

/// DeepSeek's marks, with bars and blanks of their own (U+FF5C, U+2581).
inline constexpr std::string_view kUserMark = "<｜User｜>", kAssistantMark = "<｜Assistant｜>",
                                  kEndMark = "<｜end▁of▁sentence｜>";

/// What distinguishes the families' conversations.
struct ChatFormat {
  /// <|im_start|>role\n ... <|im_end|>; <|start_header_id|>role<|end_header_id|> ... <|eot_id|>; <｜User｜> ... <｜Assistant｜>
  enum class Turns { chatml, headers, marks };
  enum class Thinking { none, choice, always };

  std::string name;  // "Qwen2.5"
  Turns turns = Turns::chatml;

  // ChatML
  std::string default_system;          // what stands in for a missing system message; empty: nothing does
  Thinking thinking = Thinking::none;  // not none: past turns also lose their think part

  // headers
  bool preamble = false;       // a system turn is always there and begins with two dates
  std::string knowledge_date;  // "December 2023"
  std::string date;            // "26 Jul 2024", where no other is asked for

  // marks
  bool joins_systems = false;  // all system messages are written, an empty line between them; else the last alone
};

/// The format of a template's text, or why it is none of the families' (for a sentence: "it has ...").
std::variant<ChatFormat, std::string> recognise_chat_format(std::string_view jinja);

/// A conversation in pieces: markup is one token, text never is. Neighbouring texts are one piece, because words may
/// cross from the frame into what was said ("user\n" and a message that begins with a line end).
struct ChatPiece {
  std::string text;
  bool markup = false;
};
class ChatPieces {
 public:
  void markup(std::string_view token) { pieces_.push_back({std::string(token), true}); }
  void text(std::string_view more);
  std::vector<ChatPiece> take() { return std::move(pieces_); }

 private:
  std::vector<ChatPiece> pieces_;
};

/// `messages` are not empty. `bos` begins a conversation with headers or marks; may be empty.
std::vector<ChatPiece> write_chat(const ChatFormat& format, std::string_view bos, std::span<const ChatMessage> messages,
                                  const ChatOptions& options);

}  // namespace kvscope
