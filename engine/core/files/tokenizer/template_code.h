#pragma once
// A chat template as tags and their tokens, as Jinja's lexer reads it with the settings of transformers (trim_blocks,
// lstrip_blocks).

#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

struct TemplateToken {
  enum class Kind { name, text, number, sign };
  Kind kind;
  std::string text;  // a string without its quotes and escapes
};

/// {{ ... }} prints, {% ... %} is a block; the text between the tags that is printed is a print of one string.
struct TemplateTag {
  bool is_block = false;
  std::vector<TemplateToken> tokens;
};

/// Why a template cannot be used, for a sentence: "it uses ...".
struct TemplateProblem {
  std::string reason;
};
[[noreturn]] inline void template_fail(std::string reason) { throw TemplateProblem{std::move(reason)}; }

/// Throws TemplateProblem if a tag, string or bracket is not closed, or for what is not read here: names that are not
/// ASCII, numbers other than decimal ones, named characters in strings.
std::vector<TemplateTag> read_template_tags(std::string_view jinja);

/// A tag in one spelling, for messages: {%if x=='a'%}
std::string spell(const TemplateTag& tag);

}  // namespace kvscope
