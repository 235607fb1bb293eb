#include <algorithm>

#include "engine/core/files/tokenizer/template_filters.h"
#include "engine/core/files/tokenizer/template_runner.h"

namespace kvscope {

using Value = TemplateValue;
using Op = TemplateExpression::Op;
using Begins = TemplateVariable::Begins;

Value TemplateRunner::value_of(const Expression& e) {
  const Level level(level_);
  budget_.step();
  return compute(e);
}

Value TemplateRunner::compute(const Expression& e) {
  const auto arg = [&](std::size_t i) { return value_of(e.args[i]); };
  switch (e.op) {
    case Op::text:
      return Value::of(TemplateText(e.text, TemplateText::written), budget_);
    case Op::number:
      return Value::of(e.number);
    case Op::real:
      return Value::of(e.real);
    case Op::constant:
      return e.text == "none" ? Value::none() : Value::of(e.text == "true");
    case Op::name: {
      const Value* value = frame_->find(e.text);
      return value ? *value : Value();
    }
    case Op::list:
      return list(e, Kind::list);
    case Op::tuple:
      return list(e, Kind::tuple);
    case Op::dict:
      return dict(e);
    case Op::attribute:
      return attribute(arg(0), e.text);
    case Op::index: {
      const Value value = arg(0), index = arg(1);
      return value.is(Kind::loop) && index.is_text() ? attribute(value, index.str())
                                                     : template_at(value, index, budget_);
    }
    case Op::slice:
      return template_slice(arg(0), arg(1), arg(2), arg(3), budget_);
    case Op::call:
      return call(e, nullptr);
    case Op::filter: {
      const Value value = arg(0);
      return template_filter(value, e.text, arguments_of(e), budget_);
    }
    case Op::test: {
      const Value value = arg(0);
      return Value::of(template_test(value, e.text, arguments_of(e), budget_));
    }
    case Op::binary: {
      for (const Expression& side : e.args) {  // Jinja escapes the other side
        const bool is_safe = side.op == Op::filter && side.text == "safe" && e.text != "~";
        if (is_safe) throw TemplateProblem{e.text + " of |safe"};
      }
      const Value left = arg(0);
      return template_binary(left, e.text, arg(1), budget_);
    }
    case Op::compare:
      return compare(e);
    case Op::negate:
      return template_binary(Value::of(0L), "-", arg(0), budget_);
    case Op::plus:
      return template_binary(Value::of(0L), "+", arg(0), budget_);
    case Op::logic_not:
      return Value::of(!template_truth(arg(0)));
    case Op::logic_and:
    case Op::logic_or: {
      Value left = arg(0);
      return template_truth(left) == (e.op == Op::logic_or) ? left : arg(1);
    }
    case Op::choice:
      return template_truth(arg(1)) ? arg(0) : e.args.size() > 2 ? arg(2) : Value();
  }
  throw TemplateProblem{"it has an expression"};
}

Value TemplateRunner::list(const Expression& e, Kind kind) {
  Value::Items items;
  for (const Expression& item : e.args) items.push_back(value_of(item));
  return Value::of(kind, std::move(items), budget_);
}

Value TemplateRunner::dict(const Expression& e) {
  Value::Items items;
  for (std::size_t i = 0; i < e.args.size(); i += 2) {
    const Value key = value_of(e.args[i]);
    Value value = value_of(e.args[i + 1]);
    std::size_t at = 0;
    while (at < items.size() && !template_equal(items[at], key, budget_)) at += 2;
    if (at == items.size()) items.insert(items.end(), {key, Value()});
    items[at + 1] = std::move(value);
  }
  return Value::of(Kind::dict, std::move(items), budget_);
}

/// a < b < c: each value once, and none after the first that fails.
Value TemplateRunner::compare(const Expression& e) {
  Value left = value_of(e.args[0]);
  for (std::size_t i = 0; i < e.names.size(); ++i) {
    Value right = value_of(e.args[i + 1]);
    if (!template_compare(left, e.names[i], right, budget_)) return Value::of(false);
    left = std::move(right);
  }
  return Value::of(true);
}

Value TemplateRunner::attribute(const Value& value, const std::string& name) {
  return value.is(Kind::loop) && name != "cycle" && name != "changed" ? loop_attribute(value, name)
                                                                      : template_attribute(value, name, budget_);
}

Value TemplateRunner::loop_attribute(const Value& value, const std::string& name) {
  const Value::Loop& loop = *value.loop;
  const long size = static_cast<long>(loop.items.size()), at = static_cast<long>(loop.index);
  if (name == "index0" || name == "index") return Value::of(at + (name == "index"));
  if (name == "first" || name == "last") return Value::of(at == (name == "first" ? 0 : size - 1));
  if (name == "length") return Value::of(size);
  if (name == "revindex" || name == "revindex0") return Value::of(size - at - (name == "revindex0"));
  if (name == "depth" || name == "depth0") return Value::of(loop.depth + (name == "depth"));
  if (name == "previtem") return at > 0 ? loop.items[loop.index - 1] : Value();
  if (name == "nextitem") return at + 1 < size ? loop.items[loop.index + 1] : Value();
  throw TemplateProblem{"loop." + name};
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

}  // namespace kvscope
