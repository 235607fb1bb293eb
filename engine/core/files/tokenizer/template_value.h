#pragma once
// What a chat template works with, and Python's operations on it.

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/files/tokenizer/template_code.h"
#include "engine/core/files/tokenizer/template_text.h"

namespace kvscope {

/// What a run may still do. A template that runs forever, or writes without end, is refused.
class TemplateBudget {
 public:
  TemplateBudget(std::size_t steps, std::size_t bytes) : steps_(steps), bytes_(bytes) {}
  /// One operation, which reads so many bytes.
  void step(std::size_t read = 0) { take(steps_, 1 + read / 64, "it takes too many steps"); }
  /// Before so many bytes are made.
  void make(std::size_t bytes) { take(bytes_, bytes, "it takes too much memory"); }

 private:
  static void take(std::size_t& left, std::size_t n, const char* reason) {
    if (n > left) throw TemplateProblem{reason};
    left -= n;
  }
  std::size_t steps_, bytes_;
};

struct TemplateValue {
  enum class Kind {
    undefined,
    none,
    boolean,
    integer,
    real,
    text,
    list,
    tuple,
    view,       // of a dict: keys(), values(), items()
    generator,  // what map, select and the like give: can be gone through once
    dict,
    space,  // namespace()
    loop,   // the variable of a loop
    macro,
    function,  // of the language: range
    method,    // of items[0]
  };
  using Items = std::vector<TemplateValue>;
  using Fields = std::map<std::string, TemplateValue, std::less<>>;
  struct Loop;
  struct Macro;

  Kind kind = Kind::undefined;
  int depth = 0;    // of lists in lists
  long number = 0;  // of integer and boolean
  double fraction = 0;
  std::shared_ptr<const TemplateText> text;  // of text; of function and method their name
  std::shared_ptr<const Items> items;        // of dict: key, value, key, value ...
  std::shared_ptr<Fields> fields;            // of space; shared, because loops change it for what comes after them
  std::shared_ptr<Loop> loop;
  std::shared_ptr<const Macro> macro;
  std::shared_ptr<bool> is_used;  // of generator

  static TemplateValue none();
  static TemplateValue of(bool truth);
  static TemplateValue of(long number);
  static TemplateValue of(double number);
  static TemplateValue of(TemplateText text, TemplateBudget& budget);
  static TemplateValue of(Kind kind, Items items, TemplateBudget& budget);
  static TemplateValue function(Kind kind, std::string_view name);
  static TemplateValue from_json(const nlohmann::ordered_json& json, TemplateText::Origin origin,
                                 TemplateBudget& budget);

  bool is(Kind k) const { return kind == k; }
  bool is_text() const { return kind == Kind::text; }
  bool is_text(std::string_view t) const { return is_text() && text->text == t; }
  bool is_number() const { return kind == Kind::integer || kind == Kind::real || kind == Kind::boolean; }
  bool is_list() const { return kind == Kind::list || kind == Kind::tuple; }
  double real() const { return kind == Kind::real ? fraction : static_cast<double>(number); }
  const std::string& str() const { return text->text; }
  /// The value of a dict's key; null if there is none.
  const TemplateValue* find(const TemplateValue& key, TemplateBudget& budget) const;
  const TemplateValue* find(std::string_view key) const;
};

/// Values given to a call, filter or test.
struct TemplateArguments {
  std::vector<TemplateValue> values;
  std::vector<std::string> names;  // of the last values

  std::size_t n_plain() const { return values.size() - names.size(); }
  /// The i-th, or the one of that name; null if it is not given.
  const TemplateValue* get(std::size_t i, std::string_view name) const;
  bool flag(std::size_t i, std::string_view name, bool otherwise) const;
  long integer(std::size_t i, std::string_view name, long otherwise) const;
  /// Throws TemplateProblem if there are fewer or more, or one of another name.
  void expect(std::size_t min, std::size_t max, std::initializer_list<std::string_view> names = {}) const;
};

/// Text that is made piece by piece within a budget.
class TemplateWriter {
 public:
  explicit TemplateWriter(TemplateBudget& budget) : budget_(budget) {}
  void add(std::string_view text, TemplateText::Origin origin = TemplateText::written) {
    budget_.make(2 * text.size());
    out_.text += text;
    out_.origins.append(text.size(), origin);
  }
  void add(const TemplateText& text) {
    budget_.make(2 * text.text.size());
    out_ += text;
  }
  void add(std::size_t n, char c) {
    budget_.make(2 * n);
    out_ += TemplateText(std::string(n, c), TemplateText::written);
  }
  TemplateBudget& budget() { return budget_; }
  const TemplateText& text() const { return out_; }
  TemplateText take() { return std::move(out_); }
  TemplateValue value() { return TemplateValue::of(take(), budget_); }

 private:
  TemplateBudget& budget_;
  TemplateText out_;
};

// These throw TemplateProblem where Python raises, or for what is not known.

bool template_truth(const TemplateValue& value);
bool template_equal(const TemplateValue& a, const TemplateValue& b, TemplateBudget& budget);
bool template_contains(const TemplateValue& all, const TemplateValue& one, TemplateBudget& budget);
/// `a sign b`: < > <= >= == != in, "not in".
bool template_compare(const TemplateValue& a, std::string_view sign, const TemplateValue& b, TemplateBudget& budget);
/// + - * / // % ** ~
TemplateValue template_binary(const TemplateValue& a, std::string_view sign, const TemplateValue& b,
                              TemplateBudget& budget);
/// What a loop goes over.
TemplateValue::Items template_items(const TemplateValue& value, TemplateBudget& budget);
std::size_t template_length(const TemplateValue& value);
/// value[index] and value[begin:end:step].
TemplateValue template_at(const TemplateValue& value, const TemplateValue& index, TemplateBudget& budget);
TemplateValue template_slice(const TemplateValue& value, const TemplateValue& begin, const TemplateValue& end,
                             const TemplateValue& step, TemplateBudget& budget);
/// value.name
TemplateValue template_attribute(const TemplateValue& value, const std::string& name, TemplateBudget& budget);
/// A method of text, list or dict.
TemplateValue template_method(const TemplateValue& value, const std::string& name, const TemplateArguments& arguments,
                              TemplateBudget& budget);
bool is_template_method(const TemplateValue& value, std::string_view name);

/// str(value)
void template_write(const TemplateValue& value, TemplateWriter& out);
TemplateValue template_text(const TemplateValue& value, TemplateBudget& budget);
/// format % arguments
TemplateValue template_percent(const TemplateText& format, const TemplateValue& arguments, TemplateBudget& budget);

}  // namespace kvscope
