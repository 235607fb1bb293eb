#pragma once
// What a chat template works with, and Python's operations on it as far as the kinds of the values leave no doubt.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/files/tokenizer/template_text.h"
#include "engine/core/record/chat_message.h"

namespace kvscope {

struct TemplateValue {
  enum class Kind { undefined, none, boolean, number, text, list, messages, message, space, loop };
  using Messages = std::vector<const ChatMessage*>;
  using Space = std::map<std::string, TemplateValue, std::less<>>;

  Kind kind = Kind::undefined;
  long number = 0;  // also of boolean; of loop: index0
  TemplateText text;
  std::vector<TemplateValue> list;
  std::shared_ptr<const Messages> messages;  // of loop: those it goes over
  const ChatMessage* message = nullptr;
  std::shared_ptr<Space> space;  // a namespace(); shared, because loops change it for what comes after them

  static TemplateValue none();
  static TemplateValue of(bool truth);
  static TemplateValue of(long number);
  static TemplateValue of(TemplateText text);
  static TemplateValue of(const ChatMessage* message);
  static TemplateValue of(Messages messages);

  bool is(Kind k) const { return kind == k; }
  bool is_text() const { return kind == Kind::text; }
  /// Python's truth. These throw TemplateProblem that names the operation where kinds do not fit.
  bool truth() const;
  TemplateValue attribute(const std::string& name) const;
  TemplateValue at(const TemplateValue& index) const;
  TemplateValue slice(const TemplateValue& begin, const TemplateValue& end, const TemplateValue& step) const;
  TemplateValue call(const std::string& method, const std::vector<TemplateValue>& arguments) const;
  TemplateValue filtered(const std::string& filter) const;
  bool passes(const std::string& test) const;
};

/// `a sign b` of numbers, texts and lists; "not in" too.
TemplateValue template_binary(const TemplateValue& a, const std::string& sign, const TemplateValue& b);

}  // namespace kvscope
