#pragma once
// Runs a chat template on a conversation, strictly: what it does with values of other kinds than families' templates do
// is refused, never guessed.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/files/tokenizer/template_text.h"
#include "engine/core/files/tokenizer/template_tree.h"
#include "engine/core/record/chat_message.h"

namespace kvscope {

/// What a template is given, as transformers' apply_chat_template gives it; never tools or documents.
struct TemplateInput {
  std::span<const ChatMessage> messages;
  const std::optional<std::string>& bos;  // nothing: bos_token is not defined
  ChatOptions options;  // a thinking of nothing leaves enable_thinking undefined; an empty date date_string
};

struct TemplateOutput {
  TemplateText text;
  std::string date;  // what the template itself set date_string to; empty if it did not
};

/// The template's own raise_exception: it is a program that refuses this conversation.
struct TemplateRaised {
  std::string message;
};

/// Throws TemplateProblem for assignments whose scope Jinja decides in surprising ways.
void check_template_scopes(const std::vector<TemplateNode>& program);

/// Throws TemplateProblem for what it does not know or what Jinja fails at, TemplateRaised.
TemplateOutput run_template(const std::vector<TemplateNode>& program, const TemplateInput& input);

}  // namespace kvscope
