#include "engine/core/files/tokenizer/template_filters.h"
#include "engine/core/files/tokenizer/template_runner.h"

namespace kvscope {

using Value = TemplateValue;
using Op = TemplateExpression::Op;

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

}  // namespace kvscope
