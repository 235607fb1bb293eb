#pragma once
// Conversations as the families' chat models were trained on them.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/record/chat_message.h"

namespace kvscope {

class Tokenizer;
struct ChatFormat;

/// A model's chat template, recognised as one of the families':
///
///     Qwen2, Qwen2.5   <|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n     after a default system message
///     SmolLM2          the same with its own default
///     Qwen3            the same without one; past turns lose <think>...</think>
///     Llama 3          <|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n{text}<|eot_id|>, text trimmed
///     Llama 3.1 - 3.3  the same after a system turn with two dates
///     DeepSeek-R1      system text, then <｜User｜>{text}<｜Assistant｜>; past answers lose what was thought
///
/// The result is what Jinja makes of the template; tools are not supported. Immutable; safe from several threads.
class ChatTemplate {
 public:
  /// Whether `folder` has a template (known or not), in chat_template.jinja or tokenizer_config.json. Throws Error (bad
  /// input) if that cannot be said: a damaged file must not turn a chat into raw text.
  static bool exists(const std::filesystem::path& folder);
  /// Reads it. Throws Error (bad input) naming file and template if there is none or it is not one of the above.
  static ChatTemplate load(const std::filesystem::path& folder);
  /// From a template's text. `file` and `where` name it in errors; `bos` is the text of the first token, if any.
  static ChatTemplate from_text(std::string_view jinja, std::string bos, const std::string& file,
                                const std::string& where);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// "Qwen2.5", "Llama 3.1": the first model that has this template's conversation.
  const std::string& name() const;
  /// Whether ChatOptions::thinking may be set to either.
  bool has_thinking_choice() const;
  /// The conversation as text. Throws Error (usage) for no message, an unknown role, or a choice of thinking that the
  /// model does not have.
  std::string render(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;
  /// As ids. The template's own markup is special tokens; what was said stays text, whatever is in it. Throws as
  /// render() does, and (bad input) if the tokenizer lacks the template's tokens.
  std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                   const ChatOptions& options = {}) const;

 private:
  explicit ChatTemplate(std::unique_ptr<ChatFormat> format, std::string bos, std::string file);
  void check(std::span<const ChatMessage> messages, const ChatOptions& options) const;
  std::unique_ptr<ChatFormat> format_;
  std::string bos_, file_;
};

}  // namespace kvscope
