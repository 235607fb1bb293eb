#pragma once
// Conversations as the families' chat models were trained on them.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/record/chat_message.h"

namespace kvscope {

class Tokenizer;
struct ChatFormat;
struct ChatPiece;

/// A model's chat template. The program in it is understood whole, or refused: what KVScope writes is what transformers
/// writes. The families write:
///
///     Qwen2, Qwen2.5   <|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n     after a default system message
///     SmolLM2          the same with its own default
///     Qwen3            the same without one; past turns lose <think>...</think>
///     Llama 3          <|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n{text}<|eot_id|>, text trimmed
///     Llama 3.1 - 3.3  the same after a system turn with two dates
///     DeepSeek-R1      system text, then <｜User｜>{text}<｜Assistant｜>; past answers lose what was thought
///
/// Tools are not supported. Immutable; safe from several threads.
class ChatTemplate {
 public:
  /// Reads the template of `folder`, in chat_template.jinja or tokenizer_config.json; nothing if there is none. Throws
  /// Error (bad input) that names file and key if it is damaged, or part of it is not understood.
  static std::optional<ChatTemplate> find(const std::filesystem::path& folder);
  /// The same; that there is none is an Error too.
  static ChatTemplate load(const std::filesystem::path& folder);
  /// From a template's text. `file` and `where` name it in errors; `bos` is the text of the first token, if any.
  static ChatTemplate from_text(std::string_view jinja, std::optional<std::string> bos, const std::string& file,
                                const std::string& where);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// "Qwen2.5", "Llama 3.1": the first model that has this template's conversation.
  const std::string& name() const;
  /// Whether ChatOptions::thinking may be set to either.
  bool has_thinking_choice() const;
  /// Whether ChatOptions::date may be set, and the date that is written otherwise.
  bool has_date() const;
  const std::string& date() const;
  /// The conversation as text. Throws Error (usage) for no message, an unknown role, or a choice of thinking that the
  /// model does not have; Error (bad input) if the template itself refuses the conversation.
  std::string render(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;
  /// As ids. The template's own markup is special tokens; what was said stays text, whatever is in it. Throws as
  /// render() does, and (bad input) if the tokenizer lacks the template's tokens.
  std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                   const ChatOptions& options = {}) const;

 private:
  explicit ChatTemplate(std::unique_ptr<ChatFormat> format, std::string file, std::string where);
  void check(std::span<const ChatMessage> messages, const ChatOptions& options) const;
  std::vector<ChatPiece> write(std::span<const ChatMessage> messages, const ChatOptions& options) const;
  std::unique_ptr<ChatFormat> format_;
  std::string file_, where_;
};

}  // namespace kvscope
