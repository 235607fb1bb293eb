#include "engine/core/files/tokenizer/template_tree.h"

#include <utility>

#include "engine/core/files/tokenizer/template_expression.h"

namespace kvscope {
namespace {

constexpr int kMaxBlocks = 24;  // Python nests at most 20 loops

using NodeKind = TemplateNode::Kind;
using Nodes = std::vector<TemplateNode>;

/// What an else asks.
TemplateExpression always() {
  TemplateExpression e;
  e.text = "true";
  return e;
}

class TreeReader {
 public:
  explicit TreeReader(std::vector<TemplateTag> tags) : tags_(std::move(tags)) {}

  Nodes read() {
    Nodes nodes = body();
    if (at_ < tags_.size()) template_fail("its blocks are not closed: " + spell(tags_[at_]));
    return nodes;
  }

 private:
  static std::string keyword(const TemplateTag& tag) {
    if (tag.tokens.empty() || tag.tokens[0].kind != TemplateToken::Kind::name) template_fail("it has " + spell(tag));
    return tag.tokens[0].text;
  }
  bool closes(std::string_view word) const {
    return at_ < tags_.size() && tags_[at_].is_block && keyword(tags_[at_]) == word;
  }
  /// Past a tag that is this word alone.
  void take(std::string_view word) {
    if (!closes(word)) template_fail("its blocks are not closed: " + std::string(word) + " is missing");
    const bool has_name = word == "endmacro" && tags_[at_].tokens.size() == 2;
    if (tags_[at_].tokens.size() != 1 && !has_name) template_fail("it has " + spell(tags_[at_]));
    ++at_;
  }

  /// Up to a tag that closes it, or the end.
  Nodes body() {
    if (++depth_ > kMaxBlocks) template_fail("its blocks are too deep");
    Nodes nodes;
    while (at_ < tags_.size() && !is_end()) {
      nodes.push_back(statement());
    }
    --depth_;
    return nodes;
  }

  bool is_end() const {
    if (!tags_[at_].is_block) return false;
    const std::string word = keyword(tags_[at_]);
    return word.starts_with("end") || word == "elif" || word == "else";
  }

  TemplateNode statement() {
    const TemplateTag& tag = tags_[at_];
    const std::string word = tag.is_block ? keyword(tag) : "";
    if (!tag.is_block) return ++at_, print(tag);
    if (word == "if") return choose();
    if (word == "for") return loop();
    if (word == "set") return set();
    if (word == "macro") return macro();
    if (word == "call") return call();
    if (word == "filter") return filter();
    if (word == "with") return with();
    if (word == "generation") {
      TemplateNode n = node(NodeKind::scope);
      take(word);
      return close(std::move(n), "endgeneration");
    }
    if ((word == "break" || word == "continue") && loops_ > 0) {
      TemplateNode n = node(word == "break" ? NodeKind::stop : NodeKind::next);
      take(word);
      return n;
    }
    template_fail("it uses " + spell(tag));
  }

  TemplateNode node(NodeKind kind) const {
    TemplateNode n;
    n.kind = kind;
    n.spelled = spell(tags_[at_]);
    return n;
  }

  /// With the body up to a tag that is `end`.
  TemplateNode close(TemplateNode n, std::string_view end, bool is_loop = false) {
    const int loops = std::exchange(loops_, is_loop ? loops_ + 1 : 0);
    n.branches.push_back({always(), body(), {}});
    loops_ = loops;
    if (is_loop && closes("else")) {
      take("else");
      n.branches.push_back({always(), body(), {}});
    }
    take(end);
    return n;
  }

  static TemplateNode print(const TemplateTag& tag) {
    TemplateNode n;
    n.spelled = spell(tag);
    TemplateExpressionReader reader(tag);
    n.value = reader.values();
    reader.expect_end();
    return n;
  }

  TemplateNode choose() {
    TemplateNode n = node(NodeKind::choose);
    do {
      TemplateExpressionReader reader(tags_[at_++], 1);
      TemplateExpression condition = reader.condition();
      reader.expect_end();
      n.branches.push_back({std::move(condition), body(), {}});
    } while (closes("elif"));
    if (closes("else")) {
      take("else");
      n.branches.push_back({always(), body(), {}});
    }
    take("endif");
    return n;
  }

  /// One name, or several that take a value apart; in brackets or not.
  void read_targets(TemplateNode& n, TemplateExpressionReader& reader) const {
    const bool in_brackets = reader.takes("(");
    n.targets.push_back(target(reader));
    while (reader.takes(",")) {
      n.takes_apart = true;
      if (reader.is_next("in") || reader.is_next("=") || reader.is_next(")")) break;
      n.targets.push_back(target(reader));
    }
    if (in_brackets && !reader.takes(")")) reader.fail();
  }

  std::string target(TemplateExpressionReader& reader) const {
    const std::string name = reader.name();
    for (const std::string_view no : {"loop", "true", "True", "false", "False", "none", "None"}) {
      if (name == no) reader.fail();
    }
    return name;
  }

  TemplateNode loop() {
    TemplateNode n = node(NodeKind::loop);
    TemplateExpressionReader reader(tags_[at_++], 1);
    read_targets(n, reader);
    if (!reader.takes("in")) reader.fail();
    n.value = reader.condition();
    n.has_condition = reader.takes("if");
    if (n.has_condition) n.condition = reader.condition();
    n.is_recursive = reader.takes("recursive");
    reader.expect_end();
    return close(std::move(n), "endfor", true);
  }

  TemplateNode set() {
    TemplateNode n = node(NodeKind::set);
    TemplateExpressionReader reader(tags_[at_++], 1);
    read_targets(n, reader);
    if (!n.takes_apart && reader.takes(".")) n.targets[0] += "." + reader.name();
    if (reader.takes("=")) {
      n.value = reader.values();
      reader.expect_end();
      return n;
    }
    n.kind = NodeKind::set_block;
    read_filters(n, reader);
    return close(std::move(n), "endset");
  }

  /// {% set x | trim %}, {% filter trim %}: of a constant, whose place the body takes.
  static void read_filters(TemplateNode& n, TemplateExpressionReader& reader) {
    while (reader.takes("|")) n.value = reader.filter(std::move(n.value));
    reader.expect_end();
  }

  TemplateNode filter() {
    TemplateNode n = node(NodeKind::filter);
    TemplateExpressionReader reader(tags_[at_++], 1);
    n.value = reader.filter(std::move(n.value));
    read_filters(n, reader);
    return close(std::move(n), "endfilter");
  }

  TemplateNode macro() {
    TemplateNode n = node(NodeKind::macro);
    TemplateExpressionReader reader(tags_[at_++], 1);
    n.name = target(reader);
    if (!reader.takes("(")) reader.fail();
    read_parameters(n, reader);
    reader.expect_end();
    return close(std::move(n), "endmacro");
  }

  /// After the opening bracket.
  void read_parameters(TemplateNode& n, TemplateExpressionReader& reader) const {
    while (!reader.takes(")")) {
      n.targets.push_back(target(reader));
      if (reader.takes("=")) {
        n.value.args.push_back(reader.value());
      } else if (!n.value.args.empty()) {
        reader.fail();
      }
      if (!reader.takes(",") && !reader.is_next(")")) reader.fail();
    }
  }

  TemplateNode call() {
    TemplateNode n = node(NodeKind::call);
    TemplateExpressionReader reader(tags_[at_++], 1);
    if (reader.takes("(")) read_parameters(n, reader);
    n.condition = reader.value();
    if (n.condition.op != TemplateExpression::Op::call) reader.fail();
    reader.expect_end();
    return close(std::move(n), "endcall");
  }

  TemplateNode with() {
    TemplateNode n = node(NodeKind::scope);
    TemplateExpressionReader reader(tags_[at_++], 1);
    while (!reader.at_end()) {
      n.targets.push_back(target(reader));
      if (!reader.takes("=")) reader.fail();
      n.value.args.push_back(reader.value());
      if (!reader.takes(",") && !reader.at_end()) reader.fail();
    }
    return close(std::move(n), "endwith");
  }

  std::vector<TemplateTag> tags_;
  std::size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

TemplateProgram read_template(std::string_view jinja) {
  TemplateProgram program;
  program.nodes = TreeReader(read_template_tags(jinja)).read();
  find_template_scopes(program);
  return program;
}

}  // namespace kvscope
