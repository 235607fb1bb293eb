#pragma once
// The filters and tests of Jinja that chat templates use, with transformers' tojson.

#include "engine/core/files/tokenizer/template_value.h"

namespace kvscope {

/// value|name(arguments). Throws TemplateProblem where Jinja fails, or for what is not known.
TemplateValue template_filter(const TemplateValue& value, const std::string& name, const TemplateArguments& arguments,
                              TemplateBudget& budget);
/// value is name(arguments)
bool template_test(const TemplateValue& value, const std::string& name, const TemplateArguments& arguments,
                   TemplateBudget& budget);

/// |tojson, as json.dumps() writes it.
TemplateValue template_to_json(const TemplateValue& value, const std::string&, const TemplateArguments& arguments,
                               TemplateBudget& budget);

// Of filters and methods alike.

/// At most `most` times; -1: everywhere.
TemplateValue template_replaced(const TemplateText& text, const TemplateText& old, const TemplateText& by, long most,
                                TemplateBudget& budget);
/// `only_text`: others raise, as in str.join().
TemplateValue template_joined(const TemplateValue::Items& items, const TemplateText& between, bool only_text,
                              TemplateBudget& budget);

}  // namespace kvscope
