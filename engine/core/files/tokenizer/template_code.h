#pragma once
// A chat template's program in one canonical spelling, so that it can be compared. Nothing here runs it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

/// A Jinja template without its free choices. `code` has the tags one after the other, {%...%} and {{...}}, with no
/// white space but between words, no comments, strings in single quotes, message['role'] as message.role:
///
///     {%- if  x == "a" %}\n  {{- m["role"] + '\n' }}\n{%- endif %}   ->   {%if x=='a'%}{{m.role+'\n'}}{%endif%}
///
/// Text between the tags that would be printed (by the rules of trim_blocks and lstrip_blocks, which transformers sets)
/// becomes a tag {{'text'}}.
struct TemplateCode {
  std::string code;
  std::vector<std::string> literals;  // every string, decoded, in order
  std::vector<std::string> words;     // every name and keyword, once, in order of appearance
  std::vector<std::string> blocks;    // what each {%...%} begins with: "if", "set"
  bool prints_between = false;        // there is text between the tags that would be printed

  /// Nothing if a tag or a string is not closed, or a string has an escape other than \n \t \r \\ \' \".
  static std::optional<TemplateCode> read(std::string_view jinja);
};

/// A string as TemplateCode::code spells it.
std::string template_literal(std::string_view text);

}  // namespace kvscope
