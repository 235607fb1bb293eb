// Where a name is seen. Jinja decides it for a whole block before it runs: a block that reads a name which no block
// around it has takes it from outside; one that sets it first has its own. `{% for ... %}{{ bos_token }}{% endfor %}
// {% set bos_token = 'x' %}` prints nothing. This is its idtracking.py.

#include <algorithm>
#include <map>

#include "engine/core/files/tokenizer/template_tree.h"

namespace kvscope {
namespace {

using Node = TemplateNode;
using NodeKind = TemplateNode::Kind;
using Begins = TemplateVariable::Begins;
using Nodes = std::vector<Node>;

struct Symbols {
  const Symbols* parent = nullptr;
  std::map<std::string, Begins> variables;
  std::set<std::string> stores;

  bool has(const std::string& name) const { return variables.contains(name) || (parent && parent->has(name)); }
  void load(const std::string& name) {
    if (!has(name)) variables[name] = Begins::given;
  }
  void store(const std::string& name) {
    stores.insert(name);
    if (!variables.contains(name)) variables[name] = parent && parent->has(name) ? Begins::outer : Begins::undefined;
  }
  void parameter(const std::string& name) {
    stores.insert(name);
    variables[name] = Begins::parameter;
  }
  /// What one of several branches sets is, in the others, what it was around the block.
  void join(const std::vector<Symbols>& branches) {
    std::set<std::string> more;
    for (const Symbols& branch : branches) {
      for (const auto& [name, begins] : branch.variables) variables[name] = begins;
      more.insert(branch.stores.begin(), branch.stores.end());
    }
    for (const std::string& name : more) {
      if (!stores.insert(name).second) continue;
      variables[name] = parent && parent->has(name) ? Begins::outer : Begins::given;
    }
  }
  std::vector<TemplateVariable> list(std::set<std::string, std::less<>>& given) const {
    std::vector<TemplateVariable> all;
    for (const auto& [name, begins] : variables) {
      all.push_back({name, begins});
      if (begins == Begins::given) given.insert(name);
    }
    return all;
  }
};

bool mentions(const TemplateExpression& e, std::string_view name) {
  return (e.op == TemplateExpression::Op::name && e.text == name) ||
         std::any_of(e.args.begin(), e.args.end(), [&](const auto& arg) { return mentions(arg, name); });
}

bool mentions(const Nodes& nodes, std::string_view name) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    return mentions(node.value, name) || mentions(node.condition, name) ||
           std::any_of(node.branches.begin(), node.branches.end(), [&](const Node::Branch& branch) {
             return mentions(branch.condition, name) || mentions(branch.body, name);
           });
  });
}

class ScopeFinder {
 public:
  explicit ScopeFinder(TemplateProgram& program) : program_(program) {}

  void find() {
    Symbols root;
    visit(program_.nodes, root);
    program_.variables = root.list(program_.given);
    enter(program_.nodes, root);
  }

 private:
  static void visit(const TemplateExpression& e, Symbols& symbols) {
    if (e.op == TemplateExpression::Op::name) symbols.load(e.text);
    for (const TemplateExpression& arg : e.args) visit(arg, symbols);
  }

  /// What a block reads and sets itself; other blocks in it are left out, but for their heads.
  static void visit(const Nodes& nodes, Symbols& symbols) {
    for (const Node& node : nodes) visit(node, symbols);
  }

  static void visit(const Node& node, Symbols& symbols) {
    switch (node.kind) {
      case NodeKind::choose:
        visit_choice(node, symbols);
        break;
      case NodeKind::macro:
        symbols.store(node.name);
        break;
      case NodeKind::call:
        visit(node.condition, symbols);
        break;
      case NodeKind::set:
      case NodeKind::set_block:
        if (node.kind == NodeKind::set) visit(node.value, symbols);
        for (const std::string& target : node.targets) {
          const std::size_t dot = target.find('.');
          dot == target.npos ? symbols.store(target) : symbols.load(target.substr(0, dot));
        }
        // Jinja does not look at the filter of a set block.
        break;
      default:
        visit(node.value, symbols);
    }
  }

  static void visit_choice(const Node& node, Symbols& symbols) {
    visit(node.branches[0].condition, symbols);
    std::vector<Symbols> branches(3, symbols);  // if; every elif; else
    visit(node.branches[0].body, branches[0]);
    for (std::size_t i = 1; i < node.branches.size(); ++i) {
      const Node::Branch& branch = node.branches[i];
      const bool is_else = branch.condition.op == TemplateExpression::Op::constant && i + 1 == node.branches.size();
      if (is_else) {
        visit(branch.body, branches[2]);
        continue;
      }
      visit(branch.condition, branches[1]);
      std::vector<Symbols> inner(1, branches[1]);
      visit(branch.body, inner[0]);
      branches[1].join(inner);
    }
    symbols.join(branches);
  }

  /// Decides for the blocks in `nodes`.
  void enter(Nodes& nodes, const Symbols& around) {
    for (Node& node : nodes) {
      for (std::size_t i = 0; i < node.branches.size(); ++i) {
        Node::Branch& branch = node.branches[i];
        if (node.kind == NodeKind::choose) {
          enter(branch.body, around);
          continue;
        }
        Symbols inner{&around, {}, {}};
        if (i == 0) declare(node, inner);
        visit(branch.body, inner);
        branch.variables = inner.list(program_.given);
        enter(branch.body, inner);
      }
      if (!node.has_condition) continue;
      Symbols test{&around, {}, {}};
      for (const std::string& target : node.targets) test.parameter(target);
      visit(node.condition, test);
      node.condition_variables = test.list(program_.given);
    }
  }

  static void declare(const Node& node, Symbols& inner) {
    const Nodes& body = node.branches[0].body;
    const bool is_loop = node.kind == NodeKind::loop,
               is_macro = node.kind == NodeKind::macro || node.kind == NodeKind::call;
    if (is_loop && (node.is_recursive || mentions(body, "loop"))) inner.parameter("loop");
    for (const std::string& target : node.targets) {
      if (is_loop || is_macro || node.kind == NodeKind::scope) inner.parameter(target);
    }
    if (!is_macro) return;
    for (const char* special : {"caller", "varargs", "kwargs"}) {
      if (mentions(body, special)) inner.parameter(special);
    }
    for (const TemplateExpression& value : node.value.args) visit(value, inner);
  }

  TemplateProgram& program_;
};

}  // namespace

void find_template_scopes(TemplateProgram& program) { ScopeFinder(program).find(); }

}  // namespace kvscope
