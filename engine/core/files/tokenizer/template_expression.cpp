#include "engine/core/files/tokenizer/template_expression.h"

#include <algorithm>

namespace kvscope {
namespace {

using Op = TemplateExpression::Op;
using Kind = TemplateToken::Kind;

constexpr int kMaxDepth = 40;

bool is_keyword(std::string_view word) {
  constexpr std::string_view kWords[] = {"and", "or", "not", "in", "is", "if", "else", "elif"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

/// The filters that Jinja and transformers have. With others a template is no program at all, wherever they stand.
bool is_filter(std::string_view name) {
  constexpr std::string_view kFilters[] = {"capitalize", "default", "dictsort", "first",      "indent",     "int",
                                           "items",      "join",    "last",     "length",     "list",       "lower",
                                           "map",        "max",     "min",      "reject",     "rejectattr", "replace",
                                           "reverse",    "safe",    "select",   "selectattr", "sort",       "string",
                                           "tojson",     "trim",    "unique",   "upper"};
  return std::find(std::begin(kFilters), std::end(kFilters), name) != std::end(kFilters);
}
bool is_test(std::string_view name) {
  constexpr std::string_view kTests[] = {"defined", "undefined", "none",    "string", "mapping", "iterable", "sequence",
                                         "true",    "false",     "boolean", "number", "in",      "equalto"};
  return std::find(std::begin(kTests), std::end(kTests), name) != std::end(kTests);
}

TemplateExpression of(Op op, std::string text, std::vector<TemplateExpression> args) {
  return {.op = op, .text = std::move(text), .number = 0, .args = std::move(args), .names = {}};
}

}  // namespace

using Expression = TemplateExpression;

void TemplateExpressionReader::fail() const { throw TemplateProblem{"it has " + spell(tag_)}; }

void TemplateExpressionReader::expect_end() const {
  if (!at_end()) fail();
}

bool TemplateExpressionReader::is_next(std::string_view word, std::size_t further) const {
  if (at_ + further >= tag_.tokens.size()) return false;
  const TemplateToken& token = tag_.tokens[at_ + further];
  return token.kind != Kind::text && token.text == word;
}

bool TemplateExpressionReader::takes(std::string_view word) { return is_next(word) && (++at_, true); }

void TemplateExpressionReader::expect(std::string_view sign) {
  if (!takes(sign)) fail();
}

std::string TemplateExpressionReader::name() {
  if (at_end() || tag_.tokens[at_].kind != Kind::name || is_keyword(tag_.tokens[at_].text)) fail();
  return tag_.tokens[at_++].text;
}

Expression TemplateExpressionReader::value() {
  Expression chosen = condition();
  while (takes("if")) {
    Expression decides = condition();
    expect("else");
    Expression other = value();
    chosen = of(Op::choice, "", {std::move(chosen), std::move(decides), std::move(other)});
  }
  return chosen;
}

Expression TemplateExpressionReader::condition() {
  if (++depth_ > kMaxDepth) fail();
  Expression left = logic_and();
  while (takes("or")) left = of(Op::logic_or, "", {std::move(left), logic_and()});
  --depth_;
  return left;
}

Expression TemplateExpressionReader::logic_and() {
  Expression left = logic_not();
  while (takes("and")) left = of(Op::logic_and, "", {std::move(left), logic_not()});
  return left;
}

Expression TemplateExpressionReader::logic_not() {
  if (!takes("not")) return comparison();
  if (++depth_ > kMaxDepth) fail();
  Expression negated = of(Op::logic_not, "", {logic_not()});
  --depth_;
  return negated;
}

Expression TemplateExpressionReader::comparison() {
  Expression left = sum();
  for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">", "in"}) {
    if (takes(sign)) return of(Op::binary, std::string(sign), {std::move(left), sum()});
  }
  if (is_next("not") && is_next("in", 1)) {
    at_ += 2;
    return of(Op::binary, "not in", {std::move(left), sum()});
  }
  return left;  // a second comparison, a < b < c, is left over and refused
}

Expression TemplateExpressionReader::left_to_right(Parser part, std::initializer_list<std::string_view> signs) {
  Expression left = (this->*part)();
  for (;;) {
    const auto sign = std::find_if(signs.begin(), signs.end(), [&](std::string_view s) { return takes(s); });
    if (sign == signs.end()) return left;
    left = of(Op::binary, std::string(*sign), {std::move(left), (this->*part)()});
  }
}

// Jinja's ~ binds tighter than its +.
Expression TemplateExpressionReader::sum() { return left_to_right(&TemplateExpressionReader::joined, {"+", "-"}); }
Expression TemplateExpressionReader::joined() { return left_to_right(&TemplateExpressionReader::product, {"~"}); }
Expression TemplateExpressionReader::product() {
  return left_to_right(&TemplateExpressionReader::power, {"*", "//", "/", "%"});
}
Expression TemplateExpressionReader::power() {
  return left_to_right(&TemplateExpressionReader::unary_with_filters, {"**"});
}

Expression TemplateExpressionReader::unary(bool with_filters) {
  if (++depth_ > kMaxDepth) fail();
  Expression e = takes("-") ? of(Op::negate, "", {unary(false)}) : primary();
  e = postfix(std::move(e));
  if (with_filters) e = filters(std::move(e));
  --depth_;
  return e;
}

Expression TemplateExpressionReader::primary() {
  if (at_end()) fail();
  const TemplateToken& token = tag_.tokens[at_];
  if (token.kind == Kind::text) {
    ++at_;
    if (!at_end() && tag_.tokens[at_].kind == Kind::text) fail();  // 'a' 'b', which Jinja joins
    return of(Op::text, token.text, {});
  }
  if (token.kind == Kind::number) {
    Expression e = of(Op::number, "", {});
    e.number = std::stol(tag_.tokens[at_++].text);
    return e;
  }
  if (takes("[")) return items("]");
  if (takes("{")) return dict();
  if (takes("(")) return items(")");
  const std::string word = name();
  for (const std::string_view constant : {"true", "false", "none"}) {
    const bool same = word.substr(1) == constant.substr(1) && (word[0] | 0x20) == constant[0];
    if (same) return of(Op::constant, std::string(constant), {});
  }
  return of(Op::name, word, {});
}

/// After ( or [. One in round brackets without a comma is itself.
Expression TemplateExpressionReader::items(std::string_view close) {
  Expression list = of(Op::list, "", {});
  bool is_list = close == "]" || is_next(close);
  while (!takes(close)) {
    list.args.push_back(value());
    if (takes(",")) {
      is_list = true;
    } else if (!is_next(close)) {
      fail();
    }
  }
  if (is_list) return list;
  Expression inner = std::move(list.args[0]);
  return inner;
}

Expression TemplateExpressionReader::dict() {
  while (!takes("}")) {
    value();
    expect(":");
    value();
    if (!takes(",") && !is_next("}")) fail();
  }
  return of(Op::dict, "", {});
}

Expression TemplateExpressionReader::postfix(Expression e) {
  for (;;) {
    if (takes(".")) {
      e = of(Op::attribute, name(), {std::move(e)});
    } else if (takes("[")) {
      e = subscript(std::move(e));
    } else if (takes("(")) {
      e = of(Op::call, "", {std::move(e)});
      call_arguments(e);
    } else {
      return e;
    }
  }
}

Expression TemplateExpressionReader::subscript(Expression e) {
  Expression slice = of(Op::slice, "", {std::move(e)});
  bool is_slice = false;
  for (int part = 0; part < 3; ++part) {
    slice.args.push_back(is_next(":") || is_next("]") ? of(Op::constant, "none", {}) : value());
    if (takes("]")) break;
    expect(":");
    is_slice = true;
    if (part == 2) fail();
  }
  if (!is_slice && slice.args[1].op == Op::constant) fail();
  slice.args.resize(is_slice ? 4 : 2, of(Op::constant, "none", {}));
  if (is_slice) return slice;
  if (slice.args[1].op == Op::text) return of(Op::attribute, slice.args[1].text, {std::move(slice.args[0])});
  slice.op = Op::index;
  return slice;
}

void TemplateExpressionReader::call_arguments(Expression& call) {
  while (!takes(")")) {
    const bool is_named = !at_end() && tag_.tokens[at_].kind == Kind::name && is_next("=", 1);
    if (is_named) {
      call.names.push_back(name());
      ++at_;
    } else if (!call.names.empty()) {
      fail();
    }
    call.args.push_back(value());
    if (!takes(",") && !is_next(")")) fail();
  }
}

Expression TemplateExpressionReader::filters(Expression e) {
  for (;;) {
    if (takes("|")) {
      e = of(Op::filter, name(), {std::move(e)});
      if (!is_filter(e.text)) throw TemplateProblem{"it uses the filter " + e.text};
      if (takes("(")) call_arguments(e);
    } else if (takes("is")) {
      e = test(std::move(e));
    } else {
      return e;
    }
  }
}

Expression TemplateExpressionReader::test(Expression e) {
  const bool negated = takes("not");
  const std::string which = is_next("in") ? (++at_, "in") : name();
  if (!is_test(which)) throw TemplateProblem{"it uses the test " + which};
  e = of(Op::test, which, {std::move(e)});
  const bool more = !at_end() && (tag_.tokens[at_].kind != Kind::sign || is_next("(") || is_next("[") || is_next("{"));
  if (takes("(")) {
    call_arguments(e);
  } else if (more && !is_next("else") && !is_next("or") && !is_next("and")) {
    e.args.push_back(postfix(primary()));  // `is equalto x`; a keyword here is no primary and is refused
  }
  return negated ? of(Op::logic_not, "", {std::move(e)}) : e;
}

}  // namespace kvscope
