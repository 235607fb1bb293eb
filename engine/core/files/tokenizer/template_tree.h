#pragma once
// A chat template's statements and expressions, with the precedence that Jinja gives them.

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/files/tokenizer/template_code.h"

namespace kvscope {

struct TemplateExpression {
  enum class Op {
    text,       // text
    number,     // number
    constant,   // text: "true", "false", "none"
    name,       // text
    list,       // args: [a, b] or (a, b)
    dict,       // never evaluated
    attribute,  // args[0].text, or args[0]['text']
    index,      // args[0][args[1]]
    slice,      // args[0][args[1]:args[2]:args[3]]; a missing one is the constant none
    call,       // args[0](args[1], ..., names[0]=last args ...)
    filter,     // args[0]|text(args[1], ...), named ones last
    test,       // args[0] is text
    binary,     // args[0] text args[1]; "not in" is one
    negate,     // -args[0]
    logic_not,
    logic_and,
    logic_or,
    choice,  // args[0] if args[1] else args[2]
  };
  Op op = Op::constant;
  std::string text;
  long number = 0;
  std::vector<TemplateExpression> args;
  std::vector<std::string> names;  // of the last args of a call or filter
};

struct TemplateNode {
  enum class Kind { print, set, choose, loop };
  Kind kind = Kind::print;
  std::string name, attribute;  // set name = value, set name.attribute = value; for name in value
  TemplateExpression value;     // of print, set and loop
  bool is_plain = true;         // false: a loop that takes a tuple apart or has a condition; it is never run
  /// Of choose: the value decides, an else has the constant true. Of loop: one branch.
  struct Branch {
    TemplateExpression condition;
    std::vector<TemplateNode> body;
  };
  std::vector<Branch> branches;
  std::string spelled;  // the tag, for messages
};

/// Throws TemplateProblem for what is no Jinja, and for statements that no family has: macros, blocks, imports.
/// A `{% generation %}` that only prints is replaced by what is in it.
std::vector<TemplateNode> read_template(std::string_view jinja);

}  // namespace kvscope
