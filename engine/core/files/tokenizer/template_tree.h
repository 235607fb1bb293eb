#pragma once
// A chat template's statements and expressions, with the precedence that Jinja gives them.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/files/tokenizer/template_code.h"

namespace kvscope {

struct TemplateExpression {
  enum class Op {
    text,       // text
    number,     // number
    real,       // real
    constant,   // text: "true", "false", "none"
    name,       // text
    list,       // args: [a, b]
    tuple,      // args: (a, b)
    dict,       // args: key, value, key, value ...
    attribute,  // args[0].text
    index,      // args[0][args[1]]
    slice,      // args[0][args[1]:args[2]:args[3]]; a missing one is the constant none
    call,       // args[0](args[1], ..., names[0]=last args ...)
    filter,     // args[0]|text(args[1], ...), named ones last; of a set or filter block args[0] is the block's text
    test,       // args[0] is text(args[1], ...)
    binary,     // args[0] text args[1]
    compare,    // args[0] names[0] args[1] names[1] args[2] ...; "not in" is a sign
    negate,     // -args[0]
    plus,       // +args[0]
    logic_not,
    logic_and,
    logic_or,
    choice,  // args[0] if args[1] else args[2], which may be missing
  };
  Op op = Op::constant;
  std::string text;
  long number = 0;
  double real = 0;
  std::vector<TemplateExpression> args;
  std::vector<std::string> names;  // of the last args of a call, filter or test
};

/// A block's variable, and what it is when the block begins.
struct TemplateVariable {
  enum class Begins { undefined, given, outer, parameter };  // given: to the template; outer: as around the block
  std::string name;
  Begins begins = Begins::undefined;
};

struct TemplateNode {
  enum class Kind {
    print,      // value
    set,        // targets = value
    set_block,  // targets = the body's text, through `value` if it is a filter
    choose,     // branches; an else has the constant true
    loop,       // for targets in value if condition; an else is the second branch
    macro,      // name(targets) with defaults: value.args of the last targets
    call,       // {% call(targets) condition %}: condition is the call, the body its caller; defaults as of a macro
    filter,     // the body's text through `value`
    scope,      // {% with targets = value.args %}, {% generation %}
    next,
    stop,  // continue, break
  };
  Kind kind = Kind::print;
  std::string name;  // of a macro
  /// Names that it assigns; "a.b" is a field of a namespace.
  std::vector<std::string> targets;
  bool takes_apart = false;  // a, b = value
  TemplateExpression value;
  TemplateExpression condition;  // of a loop: none if constant
  bool has_condition = false, is_recursive = false;
  struct Branch {
    TemplateExpression condition;
    std::vector<TemplateNode> body;
    std::vector<TemplateVariable> variables;  // unless the node is a choice, whose variables are those around it
  };
  std::vector<Branch> branches;
  std::vector<TemplateVariable> condition_variables;  // of a loop
  std::string spelled;                                // the tag, for messages
};

struct TemplateProgram {
  std::vector<TemplateNode> nodes;
  std::vector<TemplateVariable> variables;
  std::set<std::string, std::less<>> given;  // names that it takes from outside
};

/// Throws TemplateProblem for what is no Jinja, and for what transformers does not offer or no family has: includes,
/// imports, inheritance.
TemplateProgram read_template(std::string_view jinja);

/// Decides where each name is seen (template_scopes.cpp).
void find_template_scopes(TemplateProgram& program);

}  // namespace kvscope
