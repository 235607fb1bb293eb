#pragma once
// What runs a template: template_run.cpp has its statements, template_evaluate.cpp its expressions, template_calls.cpp its
// calls.

#include <set>

#include "engine/core/files/tokenizer/template_run.h"
#include "engine/core/files/tokenizer/template_value.h"

namespace kvscope {

/// The variables of one block. Macros refer to the frames that they are in; `live` has the numbers of those that exist.
class TemplateFrame {
 public:
  TemplateFrame(TemplateFrame* outer, std::set<unsigned long>& live) : outer_(outer), live_(live) {
    static thread_local unsigned long last = 0;
    live_.insert(number_ = ++last);
  }
  ~TemplateFrame() { live_.erase(number_); }
  TemplateFrame(const TemplateFrame&) = delete;
  TemplateFrame& operator=(const TemplateFrame&) = delete;

  TemplateValue* find(std::string_view name);
  /// Of this block.
  void set(std::string_view name, TemplateValue value);
  TemplateFrame* outer() const { return outer_; }
  unsigned long number() const { return number_; }

 private:
  TemplateFrame* outer_;
  std::set<unsigned long>& live_;
  unsigned long number_;
  std::vector<std::pair<std::string, TemplateValue>> variables_;
};

/// Where a macro or a recursive loop is.
struct TemplatePlace {
  const TemplateNode* node = nullptr;
  TemplateFrame* frame = nullptr;
  unsigned long frame_number = 0;
};
struct TemplateValue::Macro {
  TemplatePlace place;
};
struct TemplateValue::Loop {
  TemplatePlace place;
  Items items;
  std::size_t index = 0;
  long depth = 0;
  Items last;  // of changed()
};

class TemplateRunner {
 public:
  TemplateRunner(const TemplateProgram& program, const TemplateInput& input);
  ~TemplateRunner();
  TemplateOutput run();

 private:
  using Value = TemplateValue;
  using Kind = TemplateValue::Kind;
  using Node = TemplateNode;
  using Expression = TemplateExpression;
  using Frame = TemplateFrame;
  enum class Flow { on, next, stop };
  struct Level;  // of calls in calls

  // Statements
  Flow run(const std::vector<Node>& nodes);
  Flow run(const Node& node);
  void print(const Expression& e);
  void set(const Node& node);
  void assign(const std::vector<std::string>& targets, bool takes_apart, Value value);
  void assign(const std::string& target, Value value);
  Flow choose(const Node& node);
  void loop(const Node& node, Value::Items items, long depth);
  Flow turn(const Node& node, const std::shared_ptr<Value::Loop>& state, const Value& item);
  bool passes(const Node& node, const Value& item);
  void scope(const Node& node);
  Value filtered_block(const Node& node);
  Value through_filters(const Expression& e, const Value& text);
  /// Puts the variables of a block into its frame.
  void begin(Frame& frame, const std::vector<TemplateVariable>& variables);
  /// What `body` prints.
  template <class Body>
  Value text_of(Body body) {
    TemplateWriter inner(budget_);
    TemplateWriter* const outer = std::exchange(out_, &inner);
    body();
    out_ = outer;
    return inner.value();
  }

  // Expressions
  Value value_of(const Expression& e);
  Value compute(const Expression& e);
  Value list(const Expression& e, Kind kind);
  Value dict(const Expression& e);
  Value compare(const Expression& e);
  Value attribute(const Value& value, const std::string& name);
  Value loop_attribute(const Value& value, const std::string& name);
  TemplateArguments arguments_of(const Expression& e);
  Value call(const Expression& e, const Value* caller);
  Value call_function(const std::string& name, const TemplateArguments& arguments);
  Value call_macro(const Value::Macro& macro, TemplateArguments arguments);
  void bind(const Node& node, Frame& frame, TemplateArguments arguments);
  Value rest(const TemplateArguments& arguments, bool named, std::vector<bool>& is_used);
  Value call_loop(const Value& loop, const TemplateArguments& arguments);
  Value call_loop_method(const Value& loop, const std::string& name, const TemplateArguments& arguments);
  Value make_space(const TemplateArguments& arguments);
  Value make_range(const TemplateArguments& arguments);
  Value clock(const TemplateArguments& arguments);
  void check(const TemplatePlace& place) const;

  const TemplateProgram& program_;
  const TemplateInput& input_;
  TemplateBudget budget_;
  Value::Fields given_;
  std::vector<std::shared_ptr<Value::Fields>> spaces_;  // emptied in the end, because one may be in itself
  std::set<unsigned long> live_;
  Frame* frame_ = nullptr;
  TemplateWriter* out_ = nullptr;
  int level_ = 0;
  std::string date_;
};

/// Counts how deep the runner is in itself.
struct TemplateRunner::Level {
  explicit Level(int& level) : level_(level) {
    constexpr int kMost = 400;
    if (level_ >= kMost) throw TemplateProblem{"it calls itself too often"};
    ++level_;
  }
  ~Level() { --level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  int& level_;
};

}  // namespace kvscope
