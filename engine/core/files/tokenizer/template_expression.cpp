#include "engine/core/files/tokenizer/template_expression.h"

#include <algorithm>
#include <charconv>

namespace kvscope {
namespace {

using Op = TemplateExpression::Op;
using TokenKind = TemplateToken::Kind;

constexpr int kMaxBrackets = 40;

bool is_keyword(std::string_view word) {
  constexpr std::string_view kWords[] = {"and", "or", "not", "in", "is", "if", "else", "elif"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

TemplateExpression of(Op op, std::string text, std::vector<TemplateExpression> args) {
  return {.op = op, .text = std::move(text), .number = 0, .real = 0, .args = std::move(args), .names = {}};
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
  return token.kind != TokenKind::text && token.text == word;
}

bool TemplateExpressionReader::takes(std::string_view word) { return is_next(word) && (++at_, true); }

void TemplateExpressionReader::expect(std::string_view sign) {
  if (!takes(sign)) fail();
}

std::string TemplateExpressionReader::name() {
  if (at_end() || tag_.tokens[at_].kind != TokenKind::name || is_keyword(tag_.tokens[at_].text)) fail();
  return tag_.tokens[at_++].text;
}

Expression TemplateExpressionReader::value() {
  if (++depth_ > kMaxBrackets) fail();
  Expression chosen = condition();
  while (takes("if")) {
    Expression decides = condition();
    chosen = of(Op::choice, "", {std::move(chosen), std::move(decides)});
    if (takes("else")) chosen.args.push_back(value());
  }
  --depth_;
  return chosen;
}

Expression TemplateExpressionReader::values() {
  Expression first = value();
  return is_next(",") ? tuple(std::move(first)) : first;
}

/// The rest of a tuple without brackets.
Expression TemplateExpressionReader::tuple(Expression first) {
  Expression all = of(Op::tuple, "", {std::move(first)});
  while (takes(",") && !at_end()) all.args.push_back(value());
  return all;
}

Expression TemplateExpressionReader::condition() {
  if (++depth_ > kMaxBrackets) fail();
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
  if (++depth_ > kMaxBrackets) fail();
  Expression negated = of(Op::logic_not, "", {logic_not()});
  --depth_;
  return negated;
}

Expression TemplateExpressionReader::comparison() {
  Expression all = of(Op::compare, "", {sum()});
  while (const auto sign = comparison_sign()) {
    all.names.push_back(*sign);
    all.args.push_back(sum());
  }
  if (!all.names.empty()) return all;
  Expression alone = std::move(all.args[0]);
  return alone;
}

std::optional<std::string> TemplateExpressionReader::comparison_sign() {
  for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">", "in"}) {
    if (takes(sign)) return std::string(sign);
  }
  if (!is_next("not") || !is_next("in", 1)) return {};
  at_ += 2;
  return "not in";
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
  if (++depth_ > kMaxBrackets) fail();
  Expression e = takes("-")   ? of(Op::negate, "", {unary(false)})
                 : takes("+") ? of(Op::plus, "", {unary(false)})
                              : primary();
  e = postfix(std::move(e));
  if (with_filters) e = filters(std::move(e));
  --depth_;
  return e;
}

Expression TemplateExpressionReader::primary() {
  if (at_end()) fail();
  const TemplateToken& token = tag_.tokens[at_];
  if (token.kind == TokenKind::text) {
    std::string joined;  // 'a' 'b' is 'ab'
    for (; !at_end() && tag_.tokens[at_].kind == TokenKind::text; ++at_) joined += tag_.tokens[at_].text;
    return of(Op::text, std::move(joined), {});
  }
  if (token.kind == TokenKind::number) return number(tag_.tokens[at_++].text);
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

Expression TemplateExpressionReader::number(const std::string& digits) {
  const bool is_whole = digits.find_first_of(".eE") == digits.npos;
  Expression e = of(is_whole ? Op::number : Op::real, "", {});
  if (is_whole) {
    e.number = std::stol(digits);
  } else {
    std::from_chars(digits.data(), digits.data() + digits.size(), e.real);
  }
  return e;
}

/// After ( or [. One in round brackets without a comma is itself.
Expression TemplateExpressionReader::items(std::string_view close) {
  Expression list = of(close == "]" ? Op::list : Op::tuple, "", {});
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
  Expression dict = of(Op::dict, "", {});
  while (!takes("}")) {
    dict.args.push_back(value());
    expect(":");
    dict.args.push_back(value());
    if (!takes(",") && !is_next("}")) fail();
  }
  return dict;
}

Expression TemplateExpressionReader::postfix(Expression e) {
  for (;;) {
    if (takes(".")) {
      const bool is_index = !at_end() && tag_.tokens[at_].kind == TokenKind::number;
      e = is_index ? of(Op::index, "", {std::move(e), number(tag_.tokens[at_++].text)})
                   : of(Op::attribute, name(), {std::move(e)});
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
  slice.op = Op::index;
  return slice;
}

void TemplateExpressionReader::call_arguments(Expression& call) {
  while (!takes(")")) {
    const bool is_named = !at_end() && tag_.tokens[at_].kind == TokenKind::name && is_next("=", 1);
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
      e = filter(std::move(e));
    } else if (takes("is")) {
      e = test(std::move(e));
    } else if (takes("(")) {
      e = of(Op::call, "", {std::move(e)});
      call_arguments(e);
    } else {
      return e;
    }
  }
}

/// After the bar.
Expression TemplateExpressionReader::filter(Expression e) {
  e = of(Op::filter, name(), {std::move(e)});
  if (takes("(")) call_arguments(e);
  return e;
}

Expression TemplateExpressionReader::test(Expression e) {
  const bool negated = takes("not");
  const std::string which = is_next("in") ? (++at_, "in") : name();
  e = of(Op::test, which, {std::move(e)});
  const bool more =
      !at_end() && (tag_.tokens[at_].kind != TokenKind::sign || is_next("(") || is_next("[") || is_next("{"));
  if (takes("(")) {
    call_arguments(e);
  } else if (more && !is_next("else") && !is_next("or") && !is_next("and")) {
    e.args.push_back(postfix(primary()));  // `is equalto x`; a keyword here is no primary and is refused
  }
  return negated ? of(Op::logic_not, "", {std::move(e)}) : e;
}

}  // namespace kvscope
