#pragma once
// Conversations as chat models were trained on them.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/record/chat_message.h"

namespace kvscope {

class Tokenizer;
struct TemplateInput;
struct TemplateProgram;
struct TemplateText;

/// The texts that a template gets by name: bos_token, eos_token, pad_token ...
using ChatTokens = std::map<std::string, std::string>;

/// A model's chat template: a program in Jinja, which is run. What KVScope writes is what transformers writes; what it
/// does not know in a template is refused. The clock is at a fixed date, so that runs repeat.
///
/// Tools are not offered. Immutable; safe from several threads.
class ChatTemplate {
 public:
  /// Reads the template of `folder`, in chat_template.jinja or tokenizer_config.json; nothing if there is none. Throws
  /// Error (bad input) that names file and key if it is damaged, or part of it is not known.
  static std::optional<ChatTemplate> find(const std::filesystem::path& folder);
  /// The same; that there is none is an Error too.
  static ChatTemplate load(const std::filesystem::path& folder);
  /// From a template's text. `file` and `where` name it in errors.
  static ChatTemplate from_text(std::string_view jinja, ChatTokens tokens, const std::string& file,
                                const std::string& where);

  /// Whether ChatOptions::thinking may be set: the template reads enable_thinking or thinking.
  bool has_thinking_choice() const;
  /// Whether ChatOptions::date may be set, and the date that is written otherwise.
  bool has_date() const;
  const std::string& date() const { return date_; }
  /// The conversation as text. Throws Error (usage) for no message, an unknown role, or a choice that the template does
  /// not have; Error (bad input) if the template refuses the conversation, fails, or takes too long.
  std::string render(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;
  /// As ids. Tokens are read where the template wrote them; what was said stays text, whatever is in it.
  std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::span<const ChatMessage> messages,
                                   const ChatOptions& options = {}) const;

 private:
  ChatTemplate() = default;
  void check(std::span<const ChatMessage> messages, const ChatOptions& options) const;
  void try_out();
  TemplateInput input_of(std::span<const ChatMessage> messages, const ChatOptions& options) const;
  TemplateText write(std::span<const ChatMessage> messages, const ChatOptions& options) const;
  std::shared_ptr<const TemplateProgram> program_;
  ChatTokens tokens_;
  std::string date_, file_, where_;
  bool has_channels_ = false;  // it writes answers in channels (channels.h)
};

}  // namespace kvscope
