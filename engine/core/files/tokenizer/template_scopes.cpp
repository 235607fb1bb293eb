// Where a name that is set is seen. Jinja decides it for a whole block before it runs, which is what one expects but for
// names that come from outside: `{% for ... %}{{ bos_token }}{% endfor %}{% set bos_token = 'x' %}` prints nothing.

#include <algorithm>
#include <set>

#include "engine/core/files/tokenizer/template_run.h"

namespace kvscope {
namespace {

constexpr std::string_view kReserved[] = {
    "loop",  "namespace", "raise_exception", "strftime_now", "range", "dict", "lipsum", "cycler", "joiner", "self",
    "super", "caller",    "varargs",         "kwargs",       "true",  "True", "false",  "False",  "none",   "None"};
constexpr std::string_view kGiven[] = {"messages",      "add_generation_prompt", "tools",           "documents",
                                       "bos_token",     "date_string",           "enable_thinking", "custom_tools",
                                       "builtin_tools", "tools_in_user_message"};

class ScopeCheck {
 public:
  void check(const std::vector<TemplateNode>& nodes, int ifs, int loops) {
    for (const TemplateNode& node : nodes) {
      if (loops == 0) mention(node.value);
      if (!node.name.empty()) check_name(node, ifs > 0, loops > 0 || node.kind == TemplateNode::Kind::loop);
      const bool has_elif = node.branches.size() > 2;
      for (const TemplateNode::Branch& branch : node.branches) {
        if (loops == 0) mention(branch.condition);
        if (node.kind == TemplateNode::Kind::loop) {
          check(branch.body, ifs, loops + 1);
        } else {
          check(branch.body, has_elif ? ifs : ifs + 1, loops);  // if, elif and else may all set it: as without an if
        }
      }
    }
  }

 private:
  void check_name(const TemplateNode& node, bool in_if, bool in_loop) const {
    const auto is_in = [&](const auto& names) {
      return std::find(std::begin(names), std::end(names), node.name) != std::end(names);
    };
    const bool known = !is_in(kReserved) && (!is_in(kGiven) || (!in_loop && (in_if || mentioned_.contains(node.name))));
    if (!known) throw TemplateProblem{"it has " + node.spelled};
  }

  void mention(const TemplateExpression& e) {
    if (e.op == TemplateExpression::Op::name) mentioned_.insert(e.text);
    for (const TemplateExpression& arg : e.args) mention(arg);
  }

  std::set<std::string, std::less<>> mentioned_;  // at the top, before the node in question
};

}  // namespace

void check_template_scopes(const std::vector<TemplateNode>& program) { ScopeCheck().check(program, 0, 0); }

}  // namespace kvscope
