#pragma once
// Reads the expressions of one tag.

#include <optional>

#include "engine/core/files/tokenizer/template_tree.h"

namespace kvscope {

class TemplateExpressionReader {
 public:
  explicit TemplateExpressionReader(const TemplateTag& tag, std::size_t at = 0) : tag_(tag), at_(at) {}

  /// A value, which may be a choice (a if b else c).
  TemplateExpression value();
  /// The same, or a tuple without brackets, as {{ }} and set take it.
  TemplateExpression values();
  TemplateExpression condition();
  /// After the bar: `e` filtered.
  TemplateExpression filter(TemplateExpression e);
  /// After the opening bracket: into `call`.
  void call_arguments(TemplateExpression& call);

  bool at_end() const { return at_ == tag_.tokens.size(); }
  bool is_next(std::string_view name_or_sign, std::size_t further = 0) const;
  bool takes(std::string_view name_or_sign);
  std::string name();
  /// Throws TemplateProblem that names the tag.
  [[noreturn]] void fail() const;
  void expect_end() const;

 private:
  using Expression = TemplateExpression;
  using Parser = Expression (TemplateExpressionReader::*)();
  void expect(std::string_view sign);
  Expression left_to_right(Parser part, std::initializer_list<std::string_view> signs);
  Expression logic_and();
  Expression logic_not();
  Expression comparison();
  Expression sum();
  Expression joined();
  Expression product();
  Expression power();
  Expression unary(bool with_filters);
  Expression unary_with_filters() { return unary(true); }
  Expression primary();
  Expression items(std::string_view close);
  Expression dict();
  Expression postfix(Expression of);
  Expression filters(Expression of);
  Expression test(Expression of);
  Expression subscript(Expression of);
  std::optional<std::string> comparison_sign();
  Expression tuple(Expression first);
  static Expression number(const std::string& digits);

  const TemplateTag& tag_;
  std::size_t at_;
  int depth_ = 0;
};

}  // namespace kvscope
