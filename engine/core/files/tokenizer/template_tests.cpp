#include <algorithm>

#include "engine/core/files/tokenizer/template_filters.h"

namespace kvscope {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;

constexpr std::string_view kTests[] = {"defined",  "undefined", "none",     "string",      "mapping",     "iterable",
                                       "sequence", "true",      "false",    "boolean",     "number",      "integer",
                                       "float",    "odd",       "even",     "callable",    "upper",       "lower",
                                       "in",       "equalto",   "eq",       "ne",          "lt",          "le",
                                       "gt",       "ge",        "lessthan", "greaterthan", "divisibleby", "sameas"};

bool is_iterable(const Value& value) {
  return value.is_text() || value.is_list() || value.is(Kind::dict) || value.is(Kind::view) ||
         value.is(Kind::generator) || value.is(Kind::undefined) || value.is(Kind::loop);
}

bool has_case(const Value& value, bool upper, TemplateBudget& budget) {
  const TemplateText text = *template_text(value, budget).text;
  return template_cased(text, upper ? "upper" : "lower", true).text == text.text &&
         template_cased(text, upper ? "lower" : "upper", true).text != text.text;
}

std::string_view sign_of(std::string_view test) {
  constexpr std::string_view kSigns[][2] = {{"in", "in"}, {"equalto", "=="},   {"eq", "=="}, {"ne", "!="},
                                            {"lt", "<"},  {"lessthan", "<"},   {"le", "<="}, {"gt", ">"},
                                            {"ge", ">="}, {"greaterthan", ">"}};
  for (const auto& [name, sign] : kSigns) {
    if (name == test) return sign;
  }
  return {};
}

bool with_argument(const Value& value, const std::string& test, const Value& other, TemplateBudget& budget) {
  if (const std::string_view sign = sign_of(test); !sign.empty()) return template_compare(value, sign, other, budget);
  if (test == "divisibleby") {
    const Value rest = template_binary(value, "%", other, budget);
    return rest.is_number() && rest.real() == 0;
  }
  const auto is_single = [](const Value& v) { return v.is(Kind::none) || v.is(Kind::boolean); };
  if (!is_single(value) && !is_single(other)) template_fail("is sameas of these values");
  return value.kind == other.kind && value.number == other.number;
}

}  // namespace

bool is_template_test(std::string_view name) {
  return std::find(std::begin(kTests), std::end(kTests), name) != std::end(kTests);
}

bool template_test(const Value& value, const std::string& test, const TemplateArguments& arguments,
                   TemplateBudget& budget) {
  budget.step();
  const bool takes_one = !sign_of(test).empty() || test == "divisibleby" || test == "sameas";
  arguments.expect(takes_one, takes_one);
  if (takes_one) return with_argument(value, test, arguments.values[0], budget);
  if (test == "defined") return !value.is(Kind::undefined);
  if (test == "undefined") return value.is(Kind::undefined);
  if (test == "none") return value.is(Kind::none);
  if (test == "string") return value.is_text();
  if (test == "mapping") return value.is(Kind::dict);
  if (test == "iterable") return is_iterable(value);
  if (test == "sequence") {
    return value.is_text() || value.is_list() || value.is(Kind::dict) || value.is(Kind::undefined);
  }
  if (test == "true" || test == "false") return value.is(Kind::boolean) && value.number == (test == "true");
  if (test == "boolean") return value.is(Kind::boolean);
  if (test == "number") return value.is_number();
  if (test == "integer") return value.is(Kind::integer);
  if (test == "float") return value.is(Kind::real);
  if (test == "callable") {
    return value.is(Kind::macro) || value.is(Kind::function) || value.is(Kind::method) || value.is(Kind::loop);
  }
  if (test == "upper" || test == "lower") return has_case(value, test == "upper", budget);
  const Value rest = template_binary(value, "%", Value::of(2L), budget);  // odd, even
  return rest.is_number() && rest.real() == (test == "odd");
}

}  // namespace kvscope
