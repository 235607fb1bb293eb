#include "engine/core/files/tokenizer/template_filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace kvscope {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using Arguments = TemplateArguments;
using Budget = TemplateBudget;

std::string text_argument(const Arguments& arguments, std::size_t i, std::string_view name, const char* otherwise) {
  const Value* value = arguments.get(i, name);
  if (!value) return otherwise;
  if (!value->is_text()) template_fail("an argument that is not text");
  return value->str();
}

/// item.a.b of "a.b", or item[0] of "0".
Value field_of(Value item, const std::string& path, Budget& budget) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const bool is_index = !name.empty() && name.size() < 9 && name.find_first_not_of("0123456789") == name.npos;
    const Value key = is_index ? Value::of(std::stol(name)) : Value::of({name, TemplateText::written}, budget);
    item = template_at(item, key, budget);
    begin = end + 1;
  }
  return item;
}

/// What a filter compares: a field if it has `attribute`, texts without their case.
Value key_of(const Value& item, const Value* attribute, bool with_case, Budget& budget) {
  Value key = item;
  if (attribute && attribute->is(Kind::integer)) key = template_at(item, *attribute, budget);
  if (attribute && attribute->is_text()) key = field_of(item, attribute->str(), budget);
  return key.is_text() && !with_case ? Value::of(template_cased(*key.text, "lower", true), budget) : key;
}

Arguments rest_of(const Arguments& arguments, std::size_t n) {
  Arguments rest = arguments;
  if (rest.n_plain() < n) template_fail("a wrong number of arguments");
  rest.values.erase(rest.values.begin(), rest.values.begin() + static_cast<std::ptrdiff_t>(n));
  return rest;
}

/// Jinja takes none, false and 0 for an empty list here.
Value::Items items_if_any(const Value& value, Budget& budget) {
  return template_truth(value) ? template_items(value, budget) : Value::Items();
}

Value map(const Value& value, const std::string&, const Arguments& arguments, Budget& budget) {
  Value::Items out;
  const Value* attribute = arguments.n_plain() == 0 ? arguments.get(1, "attribute") : nullptr;
  const Value* otherwise = arguments.get(9, "default");
  const std::string filter = attribute ? "" : text_argument(arguments, 0, "", "");
  if (attribute) arguments.expect(1, 2, {"attribute", "default"});
  for (const Value& item : items_if_any(value, budget)) {
    Value made = attribute ? key_of(item, attribute, true, budget)
                           : template_filter(item, filter, rest_of(arguments, 1), budget);
    if (attribute && otherwise && made.is(Kind::undefined)) made = *otherwise;
    out.push_back(std::move(made));
  }
  return Value::of(Kind::generator, std::move(out), budget);
}

/// select, reject, selectattr, rejectattr
Value select(const Value& value, const std::string& name, const Arguments& arguments, Budget& budget) {
  const bool by_field = name.ends_with("attr"), keeps = name.starts_with("select");
  const std::size_t n = by_field ? 1 : 0;
  if (by_field && arguments.n_plain() == 0) template_fail("a wrong number of arguments");
  const std::string test = text_argument(arguments, n, "", "");
  Value::Items out;
  for (const Value& item : items_if_any(value, budget)) {
    const Value tested = by_field ? key_of(item, &arguments.values[0], true, budget) : item;
    const bool passes =
        test.empty() ? template_truth(tested) : template_test(tested, test, rest_of(arguments, n + 1), budget);
    if (passes == keeps) out.push_back(item);
  }
  return Value::of(Kind::generator, std::move(out), budget);
}

Value sorted_by(const Value::Items& items, const Value* attribute, bool with_case, bool reverse, Budget& budget) {
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) keyed.emplace_back(key_of(item, attribute, with_case, budget), item);
  const auto less = [&](const auto& a, const auto& b) { return template_compare(a.first, "<", b.first, budget); };
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  std::stable_sort(keyed.begin(), keyed.end(), less);
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  Value::Items out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return Value::of(Kind::list, std::move(out), budget);
}

Value sorted(const Value& value, const std::string&, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 3, {"reverse", "case_sensitive", "attribute"});
  return sorted_by(template_items(value, budget), arguments.get(2, "attribute"),
                   arguments.flag(1, "case_sensitive", false), arguments.flag(0, "reverse", false), budget);
}

Value dict_sorted(const Value& value, const std::string&, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 3, {"case_sensitive", "by", "reverse"});
  if (!value.is(Kind::dict)) template_fail("|dictsort of something that is no dict");
  const Value part = Value::of(text_argument(arguments, 1, "by", "key") == "value" ? 1L : 0L);
  return sorted_by(template_items(template_method(value, "items", {}, budget), budget), &part,
                   arguments.flag(0, "case_sensitive", false), arguments.flag(2, "reverse", false), budget);
}

Value unique(const Value& value, const std::string&, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 2, {"case_sensitive", "attribute"});
  Value::Items keys, out;
  for (const Value& item : template_items(value, budget)) {
    const Value key = key_of(item, arguments.get(1, "attribute"), arguments.flag(0, "case_sensitive", false), budget);
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return template_equal(k, key, budget); })) continue;
    keys.push_back(key);
    out.push_back(item);
  }
  return Value::of(Kind::generator, std::move(out), budget);
}

Value extreme(const Value& value, const std::string& name, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 2, {"case_sensitive", "attribute"});
  Value best, best_key;
  bool has_one = false;
  for (const Value& item : template_items(value, budget)) {
    const Value key = key_of(item, arguments.get(1, "attribute"), arguments.flag(0, "case_sensitive", false), budget);
    const bool better = !has_one || template_compare(key, name == "min" ? "<" : ">", best_key, budget);
    if (better) best = item, best_key = key;
    has_one = true;
  }
  return best;
}

Value sum(const Value& value, const std::string&, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 2, {"attribute", "start"});
  const Value* start = arguments.get(1, "start");
  Value total = start ? *start : Value::of(0L);
  for (const Value& item : template_items(value, budget)) {
    total = template_binary(total, "+", key_of(item, arguments.get(0, "attribute"), true, budget), budget);
  }
  return total;
}

Value default_of(const Value& value, const std::string&, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 2, {"default_value", "boolean"});
  const bool use = value.is(Kind::undefined) || (arguments.flag(1, "boolean", false) && !template_truth(value));
  const Value* other = arguments.get(0, "default_value");
  return !use ? value : other ? *other : Value::of(TemplateText(), budget);
}

Value first_or_last(const Value& value, const std::string& name, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 0);
  if (name == "last" && value.is(Kind::generator)) template_fail("|last of a filter's values");
  const Value::Items items = template_items(value, budget);
  return items.empty() ? Value() : name == "first" ? items.front() : items.back();
}

Value reversed(const Value& value, const std::string&, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 0);
  Value::Items items = template_items(value, budget);
  std::reverse(items.begin(), items.end());
  if (value.is_text()) return template_joined(items, {}, true, budget);
  return Value::of(value.is(Kind::generator) ? Kind::list : Kind::generator, std::move(items), budget);
}

Value joined(const Value& value, const std::string&, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 2, {"d", "attribute"});
  const Value* between = arguments.get(0, "d");
  const Value* attribute = arguments.get(1, "attribute");
  Value::Items items = template_items(value, budget);
  if (attribute) {
    for (Value& item : items) item = key_of(item, attribute, true, budget);
  }
  return template_joined(items, between ? *template_text(*between, budget).text : TemplateText(), false, budget);
}

Value items_of(const Value& value, const std::string&, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 0);
  if (value.is(Kind::undefined)) return Value::of(Kind::generator, {}, budget);
  if (!value.is(Kind::dict)) template_fail("|items of something that is no dict");
  return Value::of(Kind::generator, template_items(template_method(value, "items", {}, budget), budget), budget);
}

Value indented(const Value& value, const std::string&, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 3, {"width", "first", "blank"});
  if (!value.is_text()) template_fail("|indent of something that is not text");
  const Value* width = arguments.get(0, "width");
  TemplateWriter by(budget);
  if (width && width->is_text()) {
    by.add(*width->text);
  } else {
    by.add(static_cast<std::size_t>(std::max(arguments.integer(0, "width", 4), 0L)), ' ');
  }
  TemplateText text = *value.text;
  text += TemplateText("\n", TemplateText::written);
  Arguments none;
  const Value lines = template_method(Value::of(std::move(text), budget), "splitlines", none, budget);
  const bool blank = arguments.flag(2, "blank", false);
  TemplateWriter out(budget);
  for (std::size_t i = 0; i < lines.items->size(); ++i) {
    const Value& line = (*lines.items)[i];
    const bool shifts = i == 0 ? arguments.flag(1, "first", false) : blank || !line.str().empty();
    if (i > 0) out.add("\n");
    if (shifts) out.add(by.text());
    out.add(*line.text);
  }
  return out.value();
}

/// Python's int() and float() of a text; none if it is no number.
std::optional<double> real_of(const std::string& text) {
  const std::string_view digits = strip_python(text, true, true);
  const bool plus = digits.starts_with('+');
  double number = 0;
  const auto end = std::from_chars(digits.data() + plus, digits.data() + digits.size(), number);
  const bool whole = end.ec == std::errc() && end.ptr == digits.data() + digits.size();
  return whole ? std::optional(number) : std::nullopt;
}

Value number_of(const Value& value, const std::string& name, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 1, {"default"});
  if (value.is(Kind::undefined)) template_fail("|" + name + " of something undefined");
  const std::optional<double> number = value.is_number() ? std::optional(value.real())
                                       : value.is_text() ? real_of(value.str())
                                                         : std::nullopt;
  budget.step();
  const bool fits = number && std::isfinite(*number) && std::fabs(*number) < 1e15;
  if (number && !fits) template_fail("a number that is too large");
  const Value* other = arguments.get(0, "default");
  if (!number) return other ? *other : name == "int" ? Value::of(0L) : Value::of(0.0);
  return name == "int" ? Value::of(static_cast<long>(*number)) : Value::of(*number);
}

/// Filters of str(value).
Value of_text(const Value& value, const std::string& name, const Arguments& arguments, Budget& budget) {
  const Value text = template_text(value, budget);
  budget.step(text.str().size());
  if (name == "string" || name == "safe") return arguments.expect(0, 0), text;
  if (name == "trim") {
    arguments.expect(0, 1, {"chars"});
    const Value* characters = arguments.get(0, "chars");
    const std::string set = text_argument(arguments, 0, "chars", "");
    return Value::of(text.text->strip(true, true, characters ? &set : nullptr), budget);
  }
  if (name == "replace") {
    arguments.expect(2, 3, {"old", "new", "count"});
    const Value *old = arguments.get(0, "old"), *by = arguments.get(1, "new");
    if (!old || !by) template_fail("a wrong number of arguments");
    return template_replaced(*text.text, *template_text(*old, budget).text, *template_text(*by, budget).text,
                             arguments.integer(2, "count", -1), budget);
  }
  arguments.expect(0, 0);
  return Value::of(template_cased(*text.text, name, true), budget);
}

Value other(const Value& value, const std::string& name, const Arguments& arguments, Budget& budget) {
  arguments.expect(0, 0);
  if (name == "list") return Value::of(Kind::list, template_items(value, budget), budget);
  return Value::of(static_cast<long>(template_length(value)));  // length, count
}

using Filter = Value (*)(const Value&, const std::string&, const Arguments&, Budget&);

constexpr struct {
  std::string_view names;  // each between blanks
  Filter filter;
} kFilters[] = {{" capitalize lower replace safe string title trim upper ", of_text},
                {" count length list ", other},
                {" d default ", default_of},
                {" dictsort ", dict_sorted},
                {" first last ", first_or_last},
                {" float int ", number_of},
                {" indent ", indented},
                {" items ", items_of},
                {" join ", joined},
                {" map ", map},
                {" max min ", extreme},
                {" reject rejectattr select selectattr ", select},
                {" reverse ", reversed},
                {" sort ", sorted},
                {" sum ", sum},
                {" tojson ", template_to_json},
                {" unique ", unique}};

}  // namespace

Value template_filter(const Value& value, const std::string& name, const Arguments& arguments, Budget& budget) {
  budget.step();
  for (const auto& [names, filter] : kFilters) {
    if (names.find(" " + name + " ") != names.npos) return filter(value, name, arguments, budget);
  }
  template_fail("it uses the filter " + name);
}

}  // namespace kvscope
