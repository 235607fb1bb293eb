#pragma once
// The filters and tests of Jinja, with transformers' tojson.

#include "engine/core/files/tokenizer/template_value.h"

namespace kvscope {

bool is_template_filter(std::string_view name);
bool is_template_test(std::string_view name);

/// value|name(arguments). Throws TemplateProblem where Jinja fails, or for what is not known.
TemplateValue template_filter(const TemplateValue& value, const std::string& name, const TemplateArguments& arguments,
                              TemplateBudget& budget);
/// value is name(arguments)
bool template_test(const TemplateValue& value, const std::string& name, const TemplateArguments& arguments,
                   TemplateBudget& budget);

// Of filters and methods alike.

/// At most `most` times; -1: everywhere.
TemplateValue template_replaced(const TemplateText& text, const TemplateText& old, const TemplateText& by, long most,
                                TemplateBudget& budget);
/// `only_text`: others raise, as in str.join().
TemplateValue template_joined(const TemplateValue::Items& items, const TemplateText& between, bool only_text,
                              TemplateBudget& budget);
/// upper, lower, capitalize, title; the filter title takes other characters for the ends of words than the method.
TemplateText template_cased(const TemplateText& text, std::string_view how, bool is_filter);

}  // namespace kvscope
