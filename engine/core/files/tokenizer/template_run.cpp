#include "engine/core/files/tokenizer/template_run.h"

#include <algorithm>

#include "engine/core/files/tokenizer/template_filters.h"
#include "engine/core/files/tokenizer/template_runner.h"

namespace kvscope {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using Begins = TemplateVariable::Begins;

// Families' templates need some 200 steps a message, and copy what was said about ten times.
constexpr std::size_t kSteps = 100'000, kStepsOfMessage = 5'000, kBytes = 24u << 20, kBytesOfMessage = 64u << 10,
                      kBytesOfByte = 128;

/// Bytes of all texts, and the number of values.
void measure(const nlohmann::ordered_json& json, std::size_t& bytes, std::size_t& values) {
  ++values;
  if (json.is_string()) bytes += json.get_ref<const std::string&>().size();
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) {
    bytes += json.is_object() ? key.size() : 0;
    measure(value, bytes, values);
  }
}

TemplateBudget budget_of(const nlohmann::ordered_json& json) {
  std::size_t bytes = 0, values = 0;
  measure(json, bytes, values);
  return {kSteps + kStepsOfMessage * values + bytes, kBytes + kBytesOfMessage * values + kBytesOfByte * bytes};
}

/// A role is the template's own word: '<|' + message.role + '|>' is markup.
Value message_of(const nlohmann::ordered_json& json, TemplateBudget& budget) {
  if (!json.is_object()) return Value::from_json(json, TemplateText::said, budget);
  Value::Items items;
  for (const auto& [key, value] : json.items()) {
    items.push_back(Value::of(TemplateText(key, TemplateText::written), budget));
    items.push_back(Value::from_json(value, key == "role" ? TemplateText::written : TemplateText::said, budget));
  }
  return Value::of(Kind::dict, std::move(items), budget);
}

}  // namespace

Value* TemplateFrame::find(std::string_view name) {
  for (TemplateFrame* frame = this; frame; frame = frame->outer_) {
    for (auto& [key, value] : frame->variables_) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void TemplateFrame::set(std::string_view name, Value value) {
  for (auto& [key, old] : variables_) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  variables_.emplace_back(name, std::move(value));
}

TemplateRunner::TemplateRunner(const TemplateProgram& program, const TemplateInput& input)
    : program_(program), input_(input), budget_(budget_of(input.values)) {
  for (const char* name : {"range", "dict", "namespace", "raise_exception", "strftime_now"}) {
    given_[name] = Value::function(Kind::function, name);
  }
  for (const auto& [name, json] : input.values.items()) {
    if (name == "messages" && json.is_array()) {
      Value::Items messages;
      for (const auto& message : json) messages.push_back(message_of(message, budget_));
      given_[name] = Value::of(Kind::list, std::move(messages), budget_);
    } else {
      const bool is_own = name.ends_with("_token") || name.ends_with("_tokens");
      given_[name] = Value::from_json(json, is_own ? TemplateText::written : TemplateText::said, budget_);
    }
  }
}

TemplateRunner::~TemplateRunner() {
  for (const auto& space : spaces_) space->clear();
}

TemplateOutput TemplateRunner::run() {
  TemplateWriter out(budget_);
  out_ = &out;
  Frame root(nullptr, live_);
  begin(root, program_.variables);
  frame_ = &root;
  run(program_.nodes);
  return {out.take(), date_};
}

void TemplateRunner::begin(Frame& frame, const std::vector<TemplateVariable>& variables) {
  budget_.step(64 * variables.size());
  for (const TemplateVariable& variable : variables) {
    Value value;
    if (variable.begins == Begins::given) {
      if (const auto it = given_.find(variable.name); it != given_.end()) value = it->second;
    } else if (variable.begins == Begins::outer && frame.outer()) {
      if (const Value* outer = frame.outer()->find(variable.name)) value = *outer;
    }
    if (variable.begins != Begins::parameter) frame.set(variable.name, std::move(value));
  }
}

TemplateRunner::Flow TemplateRunner::run(const std::vector<Node>& nodes) {
  for (const Node& node : nodes) {
    try {
      if (const Flow flow = run(node); flow != Flow::on) return flow;
    } catch (TemplateProblem& problem) {
      if (!problem.reason.starts_with("it ")) problem.reason = "it has " + node.spelled + ": " + problem.reason;
      throw;
    }
  }
  return Flow::on;
}

TemplateRunner::Flow TemplateRunner::run(const Node& node) {
  const Level level(level_);
  budget_.step();
  switch (node.kind) {
    case Node::Kind::print:
      print(node.value);
      return Flow::on;
    case Node::Kind::set:
      set(node);
      return Flow::on;
    case Node::Kind::set_block:
      assign(node.targets, node.takes_apart, filtered_block(node));
      return Flow::on;
    case Node::Kind::choose:
      return choose(node);
    case Node::Kind::loop: {
      Value::Items items = template_items(value_of(node.value), budget_);
      loop(node, std::move(items), 0);
      return Flow::on;
    }
    case Node::Kind::macro: {
      Value value = Value::function(Kind::macro, node.name);
      value.macro = std::make_shared<const Value::Macro>(Value::Macro{{&node, frame_, frame_->number()}});
      frame_->set(node.name, std::move(value));
      return Flow::on;
    }
    case Node::Kind::call: {
      Value caller = Value::function(Kind::macro, "caller");
      caller.macro = std::make_shared<const Value::Macro>(Value::Macro{{&node, frame_, frame_->number()}});
      template_write(call(node.condition, &caller), *out_);
      return Flow::on;
    }
    case Node::Kind::filter:
      template_write(filtered_block(node), *out_);
      return Flow::on;
    case Node::Kind::scope:
      scope(node);
      return Flow::on;
    case Node::Kind::next:
      return Flow::next;
    case Node::Kind::stop:
      return Flow::stop;
  }
  return Flow::on;
}

void TemplateRunner::print(const Expression& e) { template_write(value_of(e), *out_); }

void TemplateRunner::set(const Node& node) {
  Value value = value_of(node.value);
  if (node.targets[0] == "date_string" && value.is_text()) date_ = value.str();
  assign(node.targets, node.takes_apart, std::move(value));
}

void TemplateRunner::assign(const std::vector<std::string>& targets, bool takes_apart, Value value) {
  if (!takes_apart) return assign(targets[0], std::move(value));
  Value::Items items = template_items(value, budget_);
  if (items.size() != targets.size()) throw TemplateProblem{"a value with another number of parts"};
  for (std::size_t i = 0; i < items.size(); ++i) assign(targets[i], std::move(items[i]));
}

void TemplateRunner::assign(const std::string& target, Value value) {
  const std::size_t dot = target.find('.');
  if (dot == target.npos) return frame_->set(target, std::move(value));
  const Value* space = frame_->find(std::string_view(target).substr(0, dot));
  if (!space || !space->is(Kind::space)) throw TemplateProblem{"a field of something that is not a namespace"};
  budget_.make(2 * sizeof(Value));
  (*space->fields)[target.substr(dot + 1)] = std::move(value);
}

TemplateRunner::Flow TemplateRunner::choose(const Node& node) {
  for (const Node::Branch& branch : node.branches) {
    if (template_truth(value_of(branch.condition))) return run(branch.body);
  }
  return Flow::on;
}

/// With what the body needs to know in a frame of its own; `frame_` is the one around the loop.
TemplateRunner::Flow TemplateRunner::turn(const Node& node, const std::shared_ptr<Value::Loop>& state,
                                          const Value& item) {
  Frame frame(frame_, live_);
  const Node::Branch& body = node.branches[0];
  begin(frame, body.variables);
  frame_ = &frame;
  assign(node.targets, node.takes_apart, item);
  if (state) {
    Value variable = Value::function(Kind::loop, "loop");
    variable.loop = state;
    frame.set("loop", std::move(variable));
  }
  const Flow flow = run(body.body);
  frame_ = frame.outer();
  return flow;
}

bool TemplateRunner::passes(const Node& node, const Value& item) {
  Frame frame(frame_, live_);
  begin(frame, node.condition_variables);
  frame_ = &frame;
  assign(node.targets, node.takes_apart, item);
  const bool passes = template_truth(value_of(node.condition));
  frame_ = frame.outer();
  return passes;
}

void TemplateRunner::loop(const Node& node, Value::Items items, long depth) {
  const std::vector<TemplateVariable>& variables = node.branches[0].variables;
  std::shared_ptr<Value::Loop> state;
  if (std::any_of(variables.begin(), variables.end(), [](const auto& v) { return v.name == "loop"; })) {
    state = std::make_shared<Value::Loop>();
    if (node.has_condition) std::erase_if(items, [&](const Value& item) { return !passes(node, item); });
    *state = {{&node, frame_, frame_->number()}, items, 0, depth, {}};
  }
  bool ran_through = false;  // Jinja takes the else if no turn reached its end
  for (const Value& item : items) {
    budget_.step();
    if (node.has_condition && !state && !passes(node, item)) continue;
    const Flow flow = turn(node, state, item);
    ran_through = ran_through || flow == Flow::on;
    if (flow == Flow::stop) break;
    if (state) ++state->index;
  }
  if (ran_through || node.branches.size() < 2) return;
  Frame frame(frame_, live_);
  begin(frame, node.branches[1].variables);
  frame_ = &frame;
  run(node.branches[1].body);
  frame_ = frame.outer();
}

void TemplateRunner::scope(const Node& node) {
  Frame frame(frame_, live_);
  begin(frame, node.branches[0].variables);
  const std::size_t n_values = node.kind == Node::Kind::scope ? node.targets.size() : 0;
  for (std::size_t i = 0; i < n_values; ++i) frame.set(node.targets[i], value_of(node.value.args[i]));
  frame_ = &frame;
  run(node.branches[0].body);
  frame_ = frame.outer();
}

Value TemplateRunner::filtered_block(const Node& node) {
  const Value text = text_of([&] { scope(node); });
  return through_filters(node.value, text);
}

Value TemplateRunner::through_filters(const Expression& e, const Value& text) {
  if (e.op != Expression::Op::filter) return text;
  return template_filter(through_filters(e.args[0], text), e.text, arguments_of(e), budget_);
}

TemplateOutput run_template(const TemplateProgram& program, const TemplateInput& input) {
  return TemplateRunner(program, input).run();
}

}  // namespace kvscope
