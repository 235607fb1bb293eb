#include "engine/core/files/tokenizer/template_run.h"

#include <algorithm>

#include "engine/core/files/tokenizer/template_value.h"

namespace kvscope {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using Op = TemplateExpression::Op;
using Node = TemplateNode;

// Families' templates need some 200 steps a message, and copy what was said about ten times.
constexpr std::size_t kSteps = 5'000, kStepsOfMessage = 2'000, kBytes = 8u << 20, kBytesOfMessage = 16u << 10,
                      kBytesOfByte = 64;

/// "26 Jul 2024": what strftime makes of '%d %b %Y'.
bool is_date(std::string_view text) {
  constexpr std::string_view kForm = "00 Aaa 0000";
  return std::equal(text.begin(), text.end(), kForm.begin(), kForm.end(), [](char c, char form) {
    return form == '0'   ? c >= '0' && c <= '9'
           : form == 'A' ? c >= 'A' && c <= 'Z'
           : form == 'a' ? c >= 'a' && c <= 'z'
                         : c == form;
  });
}

/// {%if not date_string is defined%}, and in it the clock's date, or a fixed one where there is no clock. The fixed one
/// is taken, so that runs repeat. Null if the node is another.
const Node* fixed_date(const Node& node) {
  const auto only = [](const Node::Branch& branch) -> const Node* {
    return branch.body.size() == 1 ? branch.body.data() : nullptr;
  };
  const bool asks =
      node.spelled == "{%if not date_string is defined%}" || node.spelled == "{%if date_string is not defined%}";
  if (!asks || node.branches.size() != 1) return nullptr;
  const Node* inner = only(node.branches[0]);
  if (!inner || inner->spelled != "{%if strftime_now is defined%}" || inner->branches.size() != 2) return nullptr;
  const Node *clock = only(inner->branches[0]), *fixed = only(inner->branches[1]);
  const bool known = clock && fixed && clock->spelled == "{%set date_string=strftime_now('%d %b %Y')%}" &&
                     inner->branches[1].condition.op == Op::constant && fixed->kind == Node::Kind::set &&
                     fixed->name == "date_string" && fixed->attribute.empty() && fixed->value.op == Op::text &&
                     is_date(fixed->value.text);
  return known ? fixed : nullptr;
}

void add_assigned(const std::vector<Node>& nodes, std::vector<std::string>& names) {
  for (const Node& node : nodes) {
    if (!node.name.empty()) names.push_back(node.name);
    for (const Node::Branch& branch : node.branches) add_assigned(branch.body, names);
  }
}

class Runner {
 public:
  Runner(const std::vector<Node>& program, const TemplateInput& input) : program_(program), input_(input) {
    add_assigned(program, assigned_);
    std::sort(assigned_.begin(), assigned_.end());
    Value::Messages messages;
    steps_left_ = kSteps + kStepsOfMessage * input.messages.size();
    bytes_left_ = kBytes + kBytesOfMessage * input.messages.size();
    for (const ChatMessage& message : input.messages) {
      messages.push_back(&message);
      bytes_left_ += kBytesOfByte * message.content.size();
    }
    const auto give = [&](const char* name, Value value) { context_[name] = std::move(value); };
    give("messages", Value::of(std::move(messages)));
    give("add_generation_prompt", Value::of(input.options.add_generation_prompt));
    for (const char* name : {"tools", "documents"}) give(name, Value::none());
    for (const char* name :
         {"bos_token", "date_string", "enable_thinking", "custom_tools", "builtin_tools", "tools_in_user_message"})
      give(name, {});
    if (input.bos) {
      TemplateText bos(*input.bos, TemplateText::bos);
      if (!bos.origins.empty()) bos.origins[0] = TemplateText::bos_begin;
      give("bos_token", Value::of(std::move(bos)));
    }
    if (!input.options.date.empty())
      give("date_string", Value::of(TemplateText(input.options.date, TemplateText::said)));
    if (input.options.thinking) give("enable_thinking", Value::of(*input.options.thinking));
  }

  TemplateOutput run() {
    scopes_.emplace_back();
    run(program_);
    return std::move(out_);
  }

 private:
  void run(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      try {
        run(node);
      } catch (TemplateProblem& problem) {
        if (!problem.reason.starts_with("it ")) problem.reason = "it has " + node.spelled + ": " + problem.reason;
        throw;
      }
    }
  }

  void run(const Node& node) {
    switch (node.kind) {
      case Node::Kind::print:
        print(value_of(node.value));
        break;
      case Node::Kind::set:
        set(node);
        break;
      case Node::Kind::choose:
        if (const Node* date = fixed_date(node)) {
          if (context_["date_string"].is(Kind::undefined)) set(*date);
          break;
        }
        for (const Node::Branch& branch : node.branches) {
          if (!value_of(branch.condition).truth()) continue;
          run(branch.body);
          break;
        }
        break;
      case Node::Kind::loop:
        loop(node);
        break;
    }
  }

  void print(const Value& value) {
    if (!value.is_text() && !value.is(Kind::undefined)) throw TemplateProblem{"the printed value is not text"};
    spend(value.text.text.size());
    out_.text += value.text;
  }

  void set(const Node& node) {
    Value value = value_of(node.value);
    if (node.name == "date_string" && value.is_text()) out_.date = value.text.text;
    if (node.attribute.empty()) {
      scopes_.back()[node.name] = std::move(value);
      return;
    }
    const Value space = look_up(node.name);
    if (!space.is(Kind::space)) throw TemplateProblem{"a field of something that is not a namespace"};
    (*space.space)[node.attribute] = std::move(value);
  }

  void loop(const Node& node) {
    const Value over = value_of(node.value);
    if (!over.is(Kind::messages) || !node.is_plain) throw TemplateProblem{"a loop over something other than messages"};
    Value state;
    state.kind = Kind::loop;
    state.messages = over.messages;
    for (const ChatMessage* message : *over.messages) {
      scopes_.push_back({{node.name, Value::of(message)}, {"loop", state}});
      run(node.branches[0].body);
      scopes_.pop_back();
      ++state.number;
    }
  }

  Value look_up(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto it = scope->find(name); it != scope->end()) return it->second;
    }
    if (const auto it = context_.find(name); it != context_.end()) return it->second;
    if (!std::binary_search(assigned_.begin(), assigned_.end(), name)) throw TemplateProblem{"it uses " + name};
    return {};
  }

  void spend(std::size_t bytes) {
    if (steps_left_-- == 0 || bytes > bytes_left_) throw TemplateProblem{"it takes too many steps"};
    bytes_left_ -= bytes;
  }

  Value value_of(const TemplateExpression& e) {
    Value value = compute(e);
    std::size_t bytes = value.text.text.size() + (e.op == Op::slice ? sizeof(void*) * value.messages->size() : 0);
    for (const Value& item : value.list) bytes += item.text.text.size() + sizeof item;
    spend(bytes);
    return value;
  }

  Value compute(const TemplateExpression& e) {
    const auto arg = [&](std::size_t i) { return value_of(e.args[i]); };
    switch (e.op) {
      case Op::text:
        return Value::of(TemplateText(e.text, TemplateText::written));
      case Op::number:
        return Value::of(e.number);
      case Op::constant:
        return e.text == "none" ? Value::none() : Value::of(e.text == "true");
      case Op::name:
        return look_up(e.text);
      case Op::list:
        return list(e);
      case Op::dict:
        throw TemplateProblem{"it uses a dict"};
      case Op::attribute:
        return arg(0).attribute(e.text);
      case Op::index:
        return arg(0).at(arg(1));
      case Op::slice:
        return arg(0).slice(arg(1), arg(2), arg(3));
      case Op::call:
        return call(e);
      case Op::filter:
      case Op::test:
        if (e.args.size() != 1) throw TemplateProblem{"it uses " + e.text + " with arguments"};
        return e.op == Op::filter ? arg(0).filtered(e.text) : Value::of(arg(0).passes(e.text));
      case Op::binary: {
        const Value left = arg(0);
        return template_binary(left, e.text, arg(1));
      }
      case Op::negate:
        return template_binary(Value::of(0L), "-", arg(0));
      case Op::logic_not:
        return Value::of(!arg(0).truth());
      case Op::logic_and:
      case Op::logic_or: {
        Value left = arg(0);
        return left.truth() == (e.op == Op::logic_or) ? left : arg(1);
      }
      case Op::choice:
        return arg(1).truth() ? arg(0) : arg(2);
    }
    throw TemplateProblem{"it has an expression"};
  }

  Value list(const TemplateExpression& e) {
    Value value;
    value.kind = Kind::list;
    for (const TemplateExpression& item : e.args) value.list.push_back(value_of(item));
    return value;
  }

  Value call(const TemplateExpression& e) {
    const TemplateExpression& called = e.args[0];
    if (called.op == Op::name && called.text == "namespace" && e.names.size() + 1 == e.args.size()) {
      Value space;
      space.kind = Kind::space;
      space.space = std::make_shared<Value::Space>();
      for (std::size_t i = 0; i < e.names.size(); ++i) (*space.space)[e.names[i]] = value_of(e.args[i + 1]);
      return space;
    }
    if (!e.names.empty()) throw TemplateProblem{"it calls with named arguments"};
    std::vector<Value> arguments;
    for (std::size_t i = 1; i < e.args.size(); ++i) arguments.push_back(value_of(e.args[i]));
    if (called.op == Op::attribute) return value_of(called.args[0]).call(called.text, arguments);
    const bool raises = called.op == Op::name && called.text == "raise_exception" && arguments.size() == 1;
    if (raises && arguments[0].is_text()) throw TemplateRaised{arguments[0].text.text};
    throw TemplateProblem{"it calls " + (called.op == Op::name ? called.text : "something")};
  }

  const std::vector<Node>& program_;
  const TemplateInput& input_;
  std::map<std::string, Value, std::less<>> context_;
  std::vector<std::string> assigned_;  // every name that the program sets somewhere: before that it is undefined
  std::vector<std::map<std::string, Value, std::less<>>> scopes_;
  std::size_t steps_left_ = 0, bytes_left_ = 0;
  TemplateOutput out_;
};

}  // namespace

TemplateOutput run_template(const std::vector<Node>& program, const TemplateInput& input) {
  return Runner(program, input).run();
}

}  // namespace kvscope
