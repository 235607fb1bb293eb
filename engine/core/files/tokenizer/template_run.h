#pragma once
// Runs a chat template on a conversation as transformers does. What it does not know is refused, never guessed.

#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/files/tokenizer/template_text.h"
#include "engine/core/files/tokenizer/template_tree.h"

namespace kvscope {

/// What a template is given, as transformers' apply_chat_template gives it.
struct TemplateInput {
  nlohmann::ordered_json
      values;  // messages, tools, add_generation_prompt, bos_token ...; what is not there is undefined
  std::string date = "26 Jul 2024";  // of the clock, which is at midnight: runs repeat
};

struct TemplateOutput {
  TemplateText text;  // what came from the messages is said
  std::string date;   // what the template set date_string to, or read from the clock; empty if it did neither
};

/// The template's own raise_exception: it is a program that refuses this conversation.
struct TemplateRaised {
  std::string message;
};

/// Throws TemplateProblem for what it does not know, what Jinja fails at, or a run that takes too long or too much
/// memory; TemplateRaised.
TemplateOutput run_template(const TemplateProgram& program, const TemplateInput& input);

/// `date` ("26 Jul 2024" or "2024-07-26") in the form of strftime. Throws TemplateProblem.
std::string format_template_date(const std::string& date, const std::string& form);

}  // namespace kvscope
