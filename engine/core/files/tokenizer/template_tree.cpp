#include "engine/core/files/tokenizer/template_tree.h"

#include <algorithm>
#include <set>

#include "engine/core/files/tokenizer/template_expression.h"

namespace kvscope {
namespace {

constexpr int kMaxDepth = 16;  // Python nests at most 20 loops

using Kind = TemplateNode::Kind;
using Nodes = std::vector<TemplateNode>;

[[noreturn]] void fail(std::string reason) { throw TemplateProblem{std::move(reason)}; }

/// What an else asks.
TemplateExpression always() {
  TemplateExpression e;
  e.text = "true";
  return e;
}

bool only_prints(const Nodes& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](const TemplateNode& node) {
    return node.kind == Kind::print ||
           (node.kind == Kind::choose && std::all_of(node.branches.begin(), node.branches.end(),
                                                     [](const auto& branch) { return only_prints(branch.body); }));
  });
}

class TreeReader {
 public:
  explicit TreeReader(std::vector<TemplateTag> tags) : tags_(std::move(tags)) {}

  Nodes read() {
    Nodes nodes = body();
    if (at_ < tags_.size()) fail("its blocks are not closed: " + spell(tags_[at_]));
    return nodes;
  }

 private:
  static std::string keyword(const TemplateTag& tag) {
    if (tag.tokens.empty() || tag.tokens[0].kind != TemplateToken::Kind::name) fail("it has " + spell(tag));
    return tag.tokens[0].text;
  }
  bool closes(std::string_view word) const {
    return at_ < tags_.size() && tags_[at_].is_block && keyword(tags_[at_]) == word;
  }
  /// Past a tag that is this word alone.
  void take(std::string_view word) {
    if (!closes(word)) fail("its blocks are not closed: " + std::string(word) + " is missing");
    if (tags_[at_].tokens.size() != 1) fail("it has " + spell(tags_[at_]));
    ++at_;
  }

  /// Up to a tag that closes it, or the end.
  Nodes body() {
    if (++depth_ > kMaxDepth) fail("its blocks are too deep");
    Nodes nodes;
    while (at_ < tags_.size()) {
      const TemplateTag& tag = tags_[at_];
      const std::string word = tag.is_block ? keyword(tag) : "";
      if (!tag.is_block) {
        ++at_;
        nodes.push_back(print(tag));
      } else if (word == "if") {
        nodes.push_back(choose());
      } else if (word == "for") {
        nodes.push_back(loop());
      } else if (word == "set") {
        ++at_;
        nodes.push_back(set(tag));
      } else if (word == "generation") {
        take(word);
        Nodes inner = body();
        take("endgeneration");
        if (!only_prints(inner)) fail("it sets variables in {%generation%}");
        std::move(inner.begin(), inner.end(), std::back_inserter(nodes));
      } else {
        break;
      }
    }
    const bool closing = at_ == tags_.size() || closes("elif") || closes("else") || closes("endif") ||
                         closes("endfor") || closes("endgeneration");
    if (!closing) fail("it uses " + spell(tags_[at_]));
    --depth_;
    return nodes;
  }

  static TemplateNode node(Kind kind, const TemplateTag& tag) {
    TemplateNode n;
    n.kind = kind;
    n.spelled = spell(tag);
    return n;
  }

  static TemplateNode print(const TemplateTag& tag) {
    TemplateNode n = node(Kind::print, tag);
    TemplateExpressionReader reader(tag);
    n.value = reader.value();
    reader.expect_end();
    return n;
  }

  TemplateNode choose() {
    TemplateNode n = node(Kind::choose, tags_[at_]);
    do {
      TemplateExpressionReader reader(tags_[at_++], 1);
      TemplateExpression condition = reader.condition();
      reader.expect_end();
      n.branches.push_back({std::move(condition), body()});
    } while (closes("elif"));
    if (closes("else")) {
      take("else");
      n.branches.push_back({always(), body()});
    }
    take("endif");
    return n;
  }

  TemplateNode loop() {
    TemplateNode n = node(Kind::loop, tags_[at_]);
    TemplateExpressionReader reader(tags_[at_++], 1);
    n.name = reader.name();
    while (reader.takes(",")) n.is_plain = false, reader.name();
    if (!reader.takes("in")) reader.fail();
    n.value = reader.condition();
    if (reader.takes("if")) n.is_plain = false, reader.condition();
    reader.expect_end();
    n.branches.push_back({always(), body()});
    take("endfor");
    return n;
  }

  static TemplateNode set(const TemplateTag& tag) {
    TemplateNode n = node(Kind::set, tag);
    TemplateExpressionReader reader(tag, 1);
    n.name = reader.name();
    if (reader.takes(".")) n.attribute = reader.name();
    if (!reader.takes("=")) reader.fail();
    n.value = reader.value();
    reader.expect_end();
    return n;
  }

  std::vector<TemplateTag> tags_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<TemplateNode> read_template(std::string_view jinja) { return TreeReader(read_template_tags(jinja)).read(); }

}  // namespace kvscope
