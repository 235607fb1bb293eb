// a + b, a < b, a[b], a is b: Python's, which raises for kinds that do not fit.

#include <algorithm>
#include <cmath>

#include "engine/core/files/tokenizer/template_filters.h"

namespace kvscope {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;

[[noreturn]] void unfit(std::string_view sign, const Value& a, const Value& b) {
  const bool undefined = a.is(Kind::undefined) || b.is(Kind::undefined);
  template_fail(std::string(sign) + " of " + (undefined ? "undefined values" : "these values"));
}

/// -1, 0, 1; 2 if one is no number.
int order(const Value& a, const Value& b, TemplateBudget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    if (!a.is(Kind::real) && !b.is(Kind::real)) return a.number < b.number ? -1 : a.number > b.number;
    if (std::isnan(a.real()) || std::isnan(b.real())) return 2;
    return a.real() < b.real() ? -1 : a.real() > b.real();
  }
  if (a.is_text() && b.is_text()) {
    budget.step(std::min(a.str().size(), b.str().size()));
    const int sign = a.str().compare(b.str());  // UTF-8 has the order of the code points
    return (sign > 0) - (sign < 0);
  }
  if (!a.is_list() || a.kind != b.kind) unfit("<", a, b);
  for (std::size_t i = 0; i < std::min(a.items->size(), b.items->size()); ++i) {
    if (!template_equal((*a.items)[i], (*b.items)[i], budget)) return order((*a.items)[i], (*b.items)[i], budget);
  }
  return a.items->size() < b.items->size() ? -1 : a.items->size() > b.items->size();
}

/// Rounded down, as Python's // and %.
Value divide(double a, double b, bool rest) {
  const double remainder = std::fmod(a, b);
  const bool down = remainder != 0 && (remainder < 0) != (b < 0);
  return Value::of(rest ? remainder + (down ? b : 0) : std::floor((a - remainder) / b) - (down ? 1 : 0));
}
Value divide(long a, long b, bool rest) {
  const bool down = a % b != 0 && (a % b < 0) != (b < 0);
  return Value::of(rest ? a % b + (down ? b : 0) : a / b - (down ? 1 : 0));
}

Value power(const Value& a, const Value& b) {
  const double result = std::pow(a.real(), b.real());
  if (!std::isfinite(result)) template_fail("a number that is too large");
  const bool is_whole = !a.is(Kind::real) && !b.is(Kind::real) && b.number >= 0;
  if (is_whole && std::fabs(result) > 9e15) template_fail("a number that is too large");
  return is_whole ? Value::of(static_cast<long>(result)) : Value::of(result);
}

Value arithmetic(const Value& a, std::string_view sign, const Value& b) {
  const bool is_real = a.is(Kind::real) || b.is(Kind::real);
  if (sign == "+") return is_real ? Value::of(a.real() + b.real()) : Value::of(a.number + b.number);
  if (sign == "-") return is_real ? Value::of(a.real() - b.real()) : Value::of(a.number - b.number);
  if (sign == "**") return power(a, b);
  if (sign == "*") {
    const double product = a.real() * b.real();
    if (!is_real && std::fabs(product) > 4e18) template_fail("a number that is too large");
    return is_real ? Value::of(product) : Value::of(a.number * b.number);
  }
  if (b.real() == 0) template_fail("a division by 0");
  if (sign == "/") return Value::of(a.real() / b.real());
  return is_real ? divide(a.real(), b.real(), sign == "%") : divide(a.number, b.number, sign == "%");
}

Value repeated(const Value& value, long times, TemplateBudget& budget) {
  const auto n = static_cast<std::size_t>(std::max(times, 0L));
  if (value.is_text()) {
    TemplateWriter out(budget);
    for (std::size_t i = 0; i < n && !value.str().empty(); ++i) out.add(*value.text);
    return out.value();
  }
  Value::Items items;
  for (std::size_t i = 0; i < n && !value.items->empty(); ++i) {
    budget.make(sizeof(Value) * value.items->size());
    items.insert(items.end(), value.items->begin(), value.items->end());
  }
  return Value::of(value.kind, std::move(items), budget);
}

/// Python's, for something of `size`: -1 is the last.
long bound(const Value& value, long size, long missing, bool backwards) {
  if (value.is(Kind::none)) return missing;
  if (!value.is(Kind::integer) && !value.is(Kind::boolean)) template_fail("a slice whose bound is not a number");
  const long at = value.number < 0 ? value.number + size : value.number;
  return backwards ? std::clamp(at, -1L, size - 1) : std::clamp(at, 0L, size);
}

bool is_iterable(const Value& value) {
  return value.is_text() || value.is_list() || value.is(Kind::dict) || value.is(Kind::view) ||
         value.is(Kind::generator) || value.is(Kind::undefined) || value.is(Kind::loop);
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

bool template_compare(const Value& a, std::string_view sign, const Value& b, TemplateBudget& budget) {
  if (sign == "==" || sign == "!=") return template_equal(a, b, budget) == (sign == "==");
  if (sign == "in" || sign == "not in") return template_contains(b, a, budget) == (sign == "in");
  const bool fits = (a.is_number() && b.is_number()) || (a.is_text() && b.is_text()) || (a.is_list() && b.is_list());
  if (!fits) unfit(sign, a, b);
  const int is = order(a, b, budget);
  if (is == 2) return false;
  return sign == "<" ? is < 0 : sign == ">" ? is > 0 : sign == "<=" ? is <= 0 : is >= 0;
}

Value template_binary(const Value& a, std::string_view sign, const Value& b, TemplateBudget& budget) {
  if (sign == "~" || (sign == "+" && a.is_text() && b.is_text())) {
    TemplateWriter out(budget);
    template_write(a, out);
    template_write(b, out);
    return out.value();
  }
  if (sign == "%" && a.is_text()) return template_percent(*a.text, b, budget);
  if (a.is_number() && b.is_number()) return arithmetic(a, sign, b);
  if (sign == "+" && a.is_list() && a.kind == b.kind) {
    Value::Items items = template_items(a, budget);
    const Value::Items more = template_items(b, budget);
    items.insert(items.end(), more.begin(), more.end());
    return Value::of(a.kind, std::move(items), budget);
  }
  const auto is_whole = [](const Value& v) { return v.is(Kind::integer) || v.is(Kind::boolean); };
  if (sign == "*" && (a.is_text() || a.is_list()) && is_whole(b)) return repeated(a, b.number, budget);
  if (sign == "*" && (b.is_text() || b.is_list()) && is_whole(a)) return repeated(b, a.number, budget);
  unfit(sign, a, b);
}

Value template_at(const Value& value, const Value& index, TemplateBudget& budget) {
  if (value.is(Kind::undefined)) template_fail("[...] of something undefined");
  if (value.is(Kind::dict)) {
    const bool is_key = !index.is(Kind::list) && !index.is(Kind::dict) && !index.is(Kind::undefined);
    const Value* found = is_key ? value.find(index, budget) : nullptr;
    if (found) return *found;
  } else if ((value.is_text() || value.is_list()) && (index.is(Kind::integer) || index.is(Kind::boolean))) {
    const long size = static_cast<long>(template_length(value));
    const long i = index.number < 0 ? index.number + size : index.number;
    if (i < 0 || i >= size) return {};
    if (value.is_list()) return (*value.items)[static_cast<std::size_t>(i)];
    budget.step(value.str().size());
    const std::vector<std::size_t> at = value.text->characters();
    const auto k = static_cast<std::size_t>(i);
    return Value::of(value.text->part(at[k], at[k + 1] - at[k]), budget);
  }
  if (index.is_text()) return template_attribute(value, index.str(), budget);
  return {};
}

Value template_slice(const Value& value, const Value& begin, const Value& end, const Value& step,
                     TemplateBudget& budget) {
  if (value.is(Kind::undefined)) template_fail("[...] of something undefined");
  if (!value.is_text() && !value.is_list()) return {};  // Jinja finds no such field
  const long by = step.is(Kind::none) ? 1 : step.is(Kind::integer) ? step.number : 0;
  if (by == 0) template_fail("a slice with this step");
  const auto size = static_cast<long>(template_length(value));
  const long from = bound(begin, size, by < 0 ? size - 1 : 0, by < 0),
             to = bound(end, size, by < 0 ? -1 : size, by < 0);
  budget.step(value.is_text() ? value.str().size() : 0);
  if (value.is_text()) {
    const std::vector<std::size_t> at = value.text->characters();
    const auto start = [&](long i) { return at[static_cast<std::size_t>(i)]; };
    if (by == 1) return Value::of(value.text->part(start(from), start(std::max(from, to)) - start(from)), budget);
    TemplateWriter out(budget);
    for (long i = from; by > 0 ? i < to : i > to; i += by) out.add(value.text->part(start(i), start(i + 1) - start(i)));
    return out.value();
  }
  Value::Items items;
  for (long i = from; by > 0 ? i < to : i > to; i += by) items.push_back((*value.items)[static_cast<std::size_t>(i)]);
  return Value::of(value.kind, std::move(items), budget);
}

Value template_attribute(const Value& value, const std::string& name, TemplateBudget& budget) {
  if (value.is(Kind::undefined)) template_fail("." + name + " of something undefined");
  if (name.starts_with("__") || is_template_method(value, name)) {
    if (name.starts_with("__")) template_fail("." + name);
    Value method = Value::function(Kind::method, name);
    budget.make(sizeof(Value));
    method.items = std::make_shared<const Value::Items>(1, value);
    return method;
  }
  if (value.is(Kind::dict)) {
    const Value* found = value.find(name);
    budget.step(value.items->size());
    return found ? *found : Value();
  }
  if (value.is(Kind::space)) {
    const auto it = value.fields->find(name);
    return it == value.fields->end() ? Value() : it->second;
  }
  const bool is_plain = value.is_text() || value.is_list() || value.is(Kind::none);
  if (!is_plain) template_fail("." + name);
  return {};
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
  if (test != "odd" && test != "even") template_fail("it uses the test " + test);
  const Value rest = template_binary(value, "%", Value::of(2L), budget);
  return rest.is_number() && rest.real() == (test == "odd");
}

}  // namespace kvscope
