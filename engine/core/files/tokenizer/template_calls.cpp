// Calls of functions, macros, loops and methods.

#include <algorithm>
#include <chrono>
#include <ctime>

#include "engine/core/files/tokenizer/template_runner.h"

namespace kvscope {

using Value = TemplateValue;
using Op = TemplateExpression::Op;
using Begins = TemplateVariable::Begins;

namespace {

/// Parts of the date that Python writes as C does.
void check_form(const std::string& form) {
  constexpr std::string_view kParts = "aAbBdDeFHIjmMpSTyY%";
  for (std::size_t at = 0; (at = form.find('%', at)) != form.npos; ++at) {
    at += form.compare(at, 2, "%-") == 0 ? 2 : 1;
    if (at >= form.size() || kParts.find(form[at]) == kParts.npos) {
      throw TemplateProblem{"strftime_now() with %" + form.substr(std::min(at, form.size()), 1)};
    }
  }
}

}  // namespace

std::string format_template_date(const std::string& date, const std::string& form) {
  std::tm day{};
  const char* end = nullptr;
  for (const char* spelled : {"%d %b %Y", "%Y-%m-%d"}) {
    if (end && *end == '\0') break;
    end = strptime(date.c_str(), spelled, &(day = {}));
  }
  using namespace std::chrono;
  const year_month_day given{year(day.tm_year + 1900), month(static_cast<unsigned>(day.tm_mon) + 1),
                             std::chrono::day(static_cast<unsigned>(day.tm_mday))};
  if (!end || *end != '\0' || !given.ok()) {
    throw TemplateProblem{"it needs a date such as \"26 Jul 2024\" or \"2024-07-26\""};
  }
  check_form(form);
  std::string text(20 * form.size() + 1, '\0');  // no part is longer
  text.resize(std::strftime(text.data(), text.size(), form.c_str(), &day));
  return text;
}

TemplateArguments TemplateRunner::arguments_of(const Expression& e) {
  TemplateArguments arguments;
  for (std::size_t i = 1; i < e.args.size(); ++i) arguments.values.push_back(value_of(e.args[i]));
  arguments.names = e.names;
  return arguments;
}

Value TemplateRunner::call(const Expression& e, const Value* caller) {
  const Value called = value_of(e.args[0]);
  TemplateArguments arguments = arguments_of(e);
  if (caller) {
    arguments.values.push_back(*caller);
    arguments.names.emplace_back("caller");
  }
  switch (called.kind) {
    case Kind::function:
      return call_function(called.str(), arguments);
    case Kind::method: {
      const Value& self = called.items->front();
      return self.is(Kind::loop) ? call_loop_method(self, called.str(), arguments)
                                 : template_method(self, called.str(), arguments, budget_);
    }
    case Kind::macro:
      return call_macro(*called.macro, std::move(arguments));
    case Kind::loop:
      return call_loop(called, arguments);
    default:
      if (e.args[0].op == Op::attribute) throw TemplateProblem{"." + e.args[0].text + "()"};
      throw TemplateProblem{e.args[0].op == Op::name ? "it calls " + e.args[0].text : "a call of no function"};
  }
}

Value TemplateRunner::call_function(const std::string& name, const TemplateArguments& arguments) {
  if (name == "range") return make_range(arguments);
  if (name == "namespace") return make_space(arguments);
  if (name == "strftime_now") return clock(arguments);
  if (name == "raise_exception") {
    arguments.expect(1, 1, {"message"});
    throw TemplateRaised{template_text(arguments.values[0], budget_).str()};
  }
  Value::Items items;  // dict
  if (arguments.n_plain() > 1) throw TemplateProblem{"a wrong number of arguments"};
  if (arguments.n_plain() == 1) {
    if (!arguments.values[0].is(Kind::dict)) throw TemplateProblem{"dict() of something that is no dict"};
    items = *arguments.values[0].items;
  }
  for (std::size_t i = 0; i < arguments.names.size(); ++i) {
    std::size_t at = 0;
    while (at < items.size() && !items[at].is_text(arguments.names[i])) at += 2;
    if (at == items.size()) {
      items.insert(items.end(), {Value::of(TemplateText(arguments.names[i], TemplateText::written), budget_), Value()});
    }
    items[at + 1] = arguments.values[arguments.n_plain() + i];
  }
  return Value::of(Kind::dict, std::move(items), budget_);
}

Value TemplateRunner::make_range(const TemplateArguments& arguments) {
  constexpr long kMost = 100'000;  // of Jinja's sandbox
  arguments.expect(1, 3);
  const auto number = [&](std::size_t i) {
    if (i < arguments.values.size() && arguments.values[i].is(Kind::undefined)) {
      throw TemplateProblem{"range() of something undefined"};
    }
    const long n = arguments.integer(i, "", 0);
    if (std::labs(n) > 1'000'000'000'000) throw TemplateProblem{"a range of numbers that are too large"};
    return n;
  };
  const bool has_begin = arguments.values.size() > 1;
  const long begin = has_begin ? number(0) : 0, end = number(has_begin ? 1 : 0);
  const long step = arguments.values.size() > 2 ? number(2) : 1;
  if (step == 0) throw TemplateProblem{"a range whose step is 0"};
  const long size = std::max(0L, step > 0 ? (end - begin + step - 1) / step : (begin - end - step - 1) / -step);
  if (size > kMost) throw TemplateProblem{"a range of more than 100000 numbers"};
  budget_.make(static_cast<std::size_t>(size) * sizeof(Value));
  Value::Items items;
  for (long i = 0; i < size; ++i) items.push_back(Value::of(begin + i * step));
  return Value::of(Kind::list, std::move(items), budget_);
}

Value TemplateRunner::make_space(const TemplateArguments& arguments) {
  if (arguments.n_plain() > 1) throw TemplateProblem{"a wrong number of arguments"};
  Value space = Value::function(Kind::space, "namespace");
  budget_.make(sizeof(Value) * (2 + arguments.values.size()));
  space.fields = std::make_shared<Value::Fields>();
  spaces_.push_back(space.fields);
  if (arguments.n_plain() == 1) {
    const Value& given = arguments.values[0];
    if (!given.is(Kind::dict)) throw TemplateProblem{"namespace() of something that is no dict"};
    for (std::size_t i = 0; i < given.items->size(); i += 2) {
      if (!(*given.items)[i].is_text()) throw TemplateProblem{"namespace() of something that is no name"};
      (*space.fields)[(*given.items)[i].str()] = (*given.items)[i + 1];
    }
  }
  for (std::size_t i = 0; i < arguments.names.size(); ++i) {
    (*space.fields)[arguments.names[i]] = arguments.values[arguments.n_plain() + i];
  }
  return space;
}

Value TemplateRunner::clock(const TemplateArguments& arguments) {
  arguments.expect(1, 1, {"format"});
  if (!arguments.values[0].is_text()) throw TemplateProblem{"strftime_now() of something that is not text"};
  date_ = format_template_date(input_.date, arguments.values[0].str());
  return Value::of(TemplateText(date_, TemplateText::said), budget_);
}

/// As Jinja's Macro.__call__ does: positional ones first, then those of its names, then its defaults.
void TemplateRunner::bind(const Node& node, Frame& frame, TemplateArguments arguments) {
  const std::size_t n_names = node.targets.size(), n_plain = arguments.n_plain();
  std::vector<bool> is_used(arguments.values.size());
  std::fill(is_used.begin(), is_used.begin() + static_cast<std::ptrdiff_t>(std::min(n_names, n_plain)), true);
  const auto take = [&](const std::string& name) -> const Value* {
    const auto it = std::find(arguments.names.begin(), arguments.names.end(), name);
    if (it == arguments.names.end()) return nullptr;
    const std::size_t i = n_plain + static_cast<std::size_t>(it - arguments.names.begin());
    is_used[i] = true;
    return &arguments.values[i];
  };
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < n_names; ++i) {
    const Value* value = i < n_plain ? &arguments.values[i] : take(node.targets[i]);
    frame.set(node.targets[i], value ? *value : Value());
    if (!value) missing.push_back(i);
  }
  const auto takes = [&](std::string_view special) {
    const std::vector<TemplateVariable>& all = node.branches[0].variables;
    const auto is = [&](const TemplateVariable& v) { return v.name == special && v.begins == Begins::parameter; };
    const bool is_target = std::find(node.targets.begin(), node.targets.end(), special) != node.targets.end();
    return !is_target && std::any_of(all.begin(), all.end(), is);
  };
  if (takes("caller")) {
    const Value* caller = take("caller");
    frame.set("caller", caller ? *caller : Value());
  }
  for (const char* special : {"varargs", "kwargs"}) {
    if (takes(special)) frame.set(special, rest(arguments, special == std::string_view("kwargs"), is_used));
  }
  if (std::find(is_used.begin(), is_used.end(), false) != is_used.end()) {
    throw TemplateProblem{"a call of " + node.name + "() with arguments that it does not have"};
  }
  for (const std::size_t i : missing) {  // in the macro's frame: a default may use the parameters before it
    const std::size_t n_required = n_names - node.value.args.size();
    if (i >= n_required) frame.set(node.targets[i], value_of(node.value.args[i - n_required]));
  }
}

/// kwargs or varargs: what is not used yet.
Value TemplateRunner::rest(const TemplateArguments& arguments, bool named, std::vector<bool>& is_used) {
  Value::Items items;
  const std::size_t n_plain = arguments.n_plain();
  for (std::size_t i = named ? n_plain : 0; i < (named ? arguments.values.size() : n_plain); ++i) {
    if (is_used[i]) continue;
    if (named) items.push_back(Value::of({arguments.names[i - n_plain], TemplateText::written}, budget_));
    items.push_back(arguments.values[i]);
    is_used[i] = true;
  }
  return Value::of(named ? Kind::dict : Kind::tuple, std::move(items), budget_);
}

Value TemplateRunner::call_loop_method(const Value& value, const std::string& name,
                                       const TemplateArguments& arguments) {
  Value::Loop& loop = *value.loop;
  arguments.expect(1, 100);
  if (name == "cycle") return arguments.values[loop.index % arguments.values.size()];
  const bool are_plain = std::all_of(arguments.values.begin(), arguments.values.end(), [](const Value& v) {
    return v.is_text() || v.is_number() || v.is(Kind::none) || v.is(Kind::undefined);
  });
  if (!are_plain) throw TemplateProblem{"loop.changed() of values other than texts and numbers"};
  const bool same = std::equal(loop.last.begin(), loop.last.end(), arguments.values.begin(), arguments.values.end(),
                               [&](const Value& a, const Value& b) { return template_equal(a, b, budget_); });
  loop.last = arguments.values;
  return Value::of(!same);
}

void TemplateRunner::check(const TemplatePlace& place) const {
  if (!live_.contains(place.frame_number)) throw TemplateProblem{"a macro or loop that is called outside its block"};
}

Value TemplateRunner::call_macro(const Value::Macro& macro, TemplateArguments arguments) {
  check(macro.place);
  const Node& node = *macro.place.node;
  Frame frame(macro.place.frame, live_);
  begin(frame, node.branches[0].variables);
  Frame* const outer = std::exchange(frame_, &frame);
  bind(node, frame, std::move(arguments));
  Value text = text_of([&] { run(node.branches[0].body); });
  frame_ = outer;
  return text;
}

Value TemplateRunner::call_loop(const Value& value, const TemplateArguments& arguments) {
  const Value::Loop& state = *value.loop;
  check(state.place);
  if (!state.place.node->is_recursive) throw TemplateProblem{"a call of a loop that is not recursive"};
  arguments.expect(1, 1);
  Frame* const outer = std::exchange(frame_, state.place.frame);
  const long depth = state.depth + 1;
  Value text = text_of([&] { loop(*state.place.node, template_items(arguments.values[0], budget_), depth); });
  frame_ = outer;
  return text;
}

}  // namespace kvscope
