#include "engine/core/files/tokenizer/template_value.h"

#include <algorithm>
#include <cstdlib>

#include "engine/core/files/tokenizer/template_code.h"

namespace kvscope {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;

constexpr long kMaxNumber = 1'000'000'000;

[[noreturn]] void unknown(const std::string& what) { throw TemplateProblem{what}; }

/// Names that every dict of Python has, so that message.items is no field that is missing.
bool is_dict_method(std::string_view name) {
  constexpr std::string_view kMethods[] = {"clear", "copy",    "fromkeys",   "get",    "items", "keys",
                                           "pop",   "popitem", "setdefault", "update", "values"};
  return std::find(std::begin(kMethods), std::end(kMethods), name) != std::end(kMethods) || name.starts_with("__");
}

bool equal(const Value& a, const Value& b) {
  if (a.kind == b.kind) {
    if (a.is_text()) return a.text.text == b.text.text;
    if (a.is(Kind::number) || a.is(Kind::boolean)) return a.number == b.number;
    unknown("== of two values that are neither text nor numbers");
  }
  const auto is_simple = [](const Value& v) { return v.is_text() || v.is(Kind::undefined) || v.is(Kind::none); };
  const auto is_number = [](const Value& v) { return v.is(Kind::number) || v.is(Kind::boolean); };
  const bool differ = (is_simple(a) && (is_simple(b) || is_number(b))) || (is_simple(b) && is_number(a));
  if (!differ) unknown("== of values of two kinds");
  return false;
}

bool contains(const Value& all, const Value& one) {
  if (!one.is_text()) unknown("in, with a left side that is not text");
  if (all.is_text()) return all.text.text.find(one.text.text) != std::string::npos;
  if (all.is(Kind::message)) return one.text.text == "role" || one.text.text == "content";
  if (!all.is(Kind::list)) unknown("in, with a right side that is not a text, list or message");
  return std::any_of(all.list.begin(), all.list.end(), [&](const Value& item) { return equal(item, one); });
}

/// Python's, for a list of `size`: -1 is the last.
std::size_t bound(const Value& value, std::size_t size, std::size_t missing) {
  if (value.is(Kind::none)) return missing;
  if (!value.is(Kind::number)) unknown("a slice whose bound is not a number");
  const long n = static_cast<long>(size), at = value.number < 0 ? value.number + n : value.number;
  return static_cast<std::size_t>(std::clamp(at, 0L, n));
}

}  // namespace

Value TemplateValue::none() {
  Value v;
  v.kind = Kind::none;
  return v;
}
Value TemplateValue::of(bool truth) {
  Value v;
  v.kind = Kind::boolean, v.number = truth;
  return v;
}
Value TemplateValue::of(long number) {
  if (std::labs(number) > kMaxNumber) unknown("a number that is too large");
  Value v;
  v.kind = Kind::number, v.number = number;
  return v;
}
Value TemplateValue::of(TemplateText text) {
  Value v;
  v.kind = Kind::text, v.text = std::move(text);
  return v;
}
Value TemplateValue::of(const ChatMessage* message) {
  Value v;
  v.kind = Kind::message, v.message = message;
  return v;
}
Value TemplateValue::of(Messages messages) {
  Value v;
  v.kind = Kind::messages, v.messages = std::make_shared<const Messages>(std::move(messages));
  return v;
}

bool TemplateValue::truth() const {
  switch (kind) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::number:
      return number != 0;
    case Kind::text:
      return !text.text.empty();
    case Kind::list:
      return !list.empty();
    case Kind::messages:
      return !messages->empty();
    case Kind::message:
      return true;
    default:
      unknown("a namespace or loop as a condition");
  }
}

Value TemplateValue::attribute(const std::string& name) const {
  if (is(Kind::message)) {
    if (name == "role") return of(TemplateText(message->role, TemplateText::written));
    if (name == "content") return of(TemplateText(message->content, TemplateText::said));
    if (is_dict_method(name)) unknown("." + name);
    return {};
  }
  if (is(Kind::space)) {
    const auto it = space->find(name);
    if (it == space->end()) unknown("." + name + ", which the namespace lacks");
    return it->second;
  }
  if (is(Kind::loop)) {
    const long size = static_cast<long>(messages->size());
    if (name == "index0" || name == "index") return of(number + (name == "index"));
    if (name == "first" || name == "last") return of(number == (name == "first" ? 0 : size - 1));
    if (name == "length") return of(size);
  }
  unknown("." + name + (is(Kind::undefined) ? " of something undefined" : ""));
}

Value TemplateValue::at(const Value& index) const {
  if (!index.is(Kind::number) || !(is(Kind::messages) || is(Kind::list)))
    unknown("[...] of something that is not a list");
  const long size = static_cast<long>(is(Kind::list) ? list.size() : messages->size());
  const long i = index.number < 0 ? index.number + size : index.number;
  if (i < 0 || i >= size) return {};
  return is(Kind::list) ? list[static_cast<std::size_t>(i)] : of((*messages)[static_cast<std::size_t>(i)]);
}

Value TemplateValue::slice(const Value& begin, const Value& end, const Value& step) const {
  if (!is(Kind::messages)) unknown("a slice of something that is not a list of messages");
  Messages all = *messages;
  if (step.is(Kind::number) && step.number == -1 && begin.is(Kind::none) && end.is(Kind::none)) {
    std::reverse(all.begin(), all.end());
    return of(std::move(all));
  }
  if (!step.is(Kind::none)) unknown("a slice with a step");
  const std::size_t from = bound(begin, all.size(), 0), to = bound(end, all.size(), all.size());
  if (from >= to) return of(Messages());
  return of(Messages(all.begin() + static_cast<long>(from), all.begin() + static_cast<long>(to)));
}

Value TemplateValue::call(const std::string& method, const std::vector<Value>& arguments) const {
  if (!is_text() || arguments.size() > 1) unknown("." + method + "()");
  if (!arguments.empty() && !arguments[0].is_text()) unknown("." + method + "() with an argument that is not text");
  const bool has_text = !arguments.empty() && !arguments[0].text.text.empty();
  const std::string given = has_text ? arguments[0].text.text : "";
  if (method == "strip" || method == "lstrip" || method == "rstrip") {
    const bool ascii =
        std::all_of(given.begin(), given.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (!ascii || has_text != !arguments.empty()) unknown("." + method + "() of these characters");
    return of(text.strip(method != "rstrip", method != "lstrip", given));
  }
  if (method == "split" && has_text) {
    Value v;
    v.kind = Kind::list;
    for (TemplateText& part : text.split(given)) v.list.push_back(of(std::move(part)));
    return v;
  }
  if (method == "startswith" && has_text) return of(text.text.starts_with(given));
  if (method == "endswith" && has_text) return of(text.text.ends_with(given));
  unknown("." + method + "()");
}

Value TemplateValue::filtered(const std::string& filter) const {
  if (filter == "trim" && is_text()) return of(text.strip(true, true, ""));
  if (filter == "string" && is_text()) return *this;
  if (filter == "length" && is(Kind::messages)) return of(static_cast<long>(messages->size()));
  if (filter == "length" && is(Kind::list)) return of(static_cast<long>(list.size()));
  if (filter == "length" && is_text()) {
    return of(static_cast<long>(std::count_if(text.text.begin(), text.text.end(),
                                              [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; })));
  }
  unknown("|" + filter + " of this kind of value");
}

bool TemplateValue::passes(const std::string& test) const {
  if (test == "defined") return !is(Kind::undefined);
  if (test == "undefined") return is(Kind::undefined);
  if (test == "none") return is(Kind::none);
  if (test == "string") return is_text();
  if (test == "true" || test == "false") return is(Kind::boolean) && number == (test == "true");
  if (test == "mapping" && !is(Kind::space) && !is(Kind::loop)) return is(Kind::message);
  unknown("is " + test);
}

Value template_binary(const Value& a, const std::string& sign, const Value& b) {
  if (sign == "==" || sign == "!=") return Value::of(equal(a, b) == (sign == "=="));
  if (sign == "in" || sign == "not in") return Value::of(contains(b, a) == (sign == "in"));
  if (sign == "+" && a.is_text() && b.is_text()) {
    Value sum = a;
    sum.text += b.text;
    return sum;
  }
  if (sign == "~") {
    TemplateText joined;
    for (const Value* v : {&a, &b}) {
      if (!v->is_text() && !v->is(Kind::undefined)) unknown("~ of something that is not text");
      joined += v->text;
    }
    return Value::of(std::move(joined));
  }
  if (a.is(Kind::number) && b.is(Kind::number)) {
    if (sign == "+") return Value::of(a.number + b.number);
    if (sign == "-") return Value::of(a.number - b.number);
    if (sign == "<") return Value::of(a.number < b.number);
    if (sign == ">") return Value::of(a.number > b.number);
    if (sign == "<=") return Value::of(a.number <= b.number);
    if (sign == ">=") return Value::of(a.number >= b.number);
  }
  unknown(sign + " of " + (a.is(Kind::undefined) || b.is(Kind::undefined) ? "undefined values" : "these values"));
}

}  // namespace kvscope
