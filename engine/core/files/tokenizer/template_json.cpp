// tojson of transformers, which is Python's json.dumps().

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/files/tokenizer/template_filters.h"

namespace kvscope {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;

struct Style {
  std::string indent;  // of a level; only if is_indented
  bool is_indented = false, sort_keys = false, ascii = false;
  std::string between = ", ", after_key = ": ";
};

void write_json_text(const TemplateText& text, bool ascii, TemplateWriter& out) {
  const nlohmann::json json = text.text;
  out.add(json.dump(-1, ' ', ascii, nlohmann::json::error_handler_t::replace),
          text.is_said() ? TemplateText::said : TemplateText::written);
}

class JsonWriter {
 public:
  JsonWriter(const Style& style, TemplateWriter& out) : style_(style), out_(out) {}

  void write(const Value& value, int level) {
    out_.budget().step();
    switch (value.kind) {
      case Kind::none:
        return out_.add("null");
      case Kind::boolean:
        return out_.add(value.number ? "true" : "false");
      case Kind::integer:
        return template_write(value, out_);
      case Kind::real:
        if (std::isfinite(value.fraction)) return template_write(value, out_);
        return out_.add(std::isnan(value.fraction) ? "NaN" : value.fraction < 0 ? "-Infinity" : "Infinity");
      case Kind::text:
        return write_json_text(*value.text, style_.ascii, out_);
      case Kind::list:
      case Kind::tuple:
      case Kind::dict:
        return items(value, level);
      default:
        template_fail("tojson of something that JSON does not have");
    }
  }

 private:
  void line(int level) {
    if (!style_.is_indented) return;
    out_.add("\n");
    for (int i = 0; i < level; ++i) out_.add(style_.indent);
  }

  void items(const Value& value, int level) {
    const bool is_dict = value.is(Kind::dict);
    const Value::Items& all = *value.items;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < all.size(); i += 1 + is_dict) order.push_back(i);
    if (is_dict && style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return template_compare(all[a], "<", all[b], out_.budget());
      });
    }
    out_.add(is_dict ? "{" : "[");
    for (std::size_t n = 0; n < order.size(); ++n) {
      if (n > 0) out_.add(style_.between);
      line(level + 1);
      if (is_dict) key(all[order[n]]);
      write(all[order[n] + is_dict], level + 1);
    }
    if (!order.empty()) line(level);
    out_.add(is_dict ? "}" : "]");
  }

  void key(const Value& key) {
    if (key.is_text()) {
      write_json_text(*key.text, style_.ascii, out_);
    } else {
      out_.add("\"");
      write(key, 0);
      out_.add("\"");
    }
    out_.add(style_.after_key);
  }

  const Style& style_;
  TemplateWriter& out_;
};

}  // namespace

Value template_to_json(const Value& value, const std::string&, const TemplateArguments& arguments,
                       TemplateBudget& budget) {
  arguments.expect(0, 4, {"ensure_ascii", "indent", "separators", "sort_keys"});
  Style style;
  style.sort_keys = arguments.flag(3, "sort_keys", false);
  style.ascii = arguments.flag(0, "ensure_ascii", false);
  if (const Value* indent = arguments.get(1, "indent"); indent && !indent->is(Kind::none)) {
    style.is_indented = true;
    style.between = ",";
    if (indent->is_text()) {
      style.indent = indent->str();
    } else {
      const long width = arguments.integer(1, "indent", 0);
      budget.make(static_cast<std::size_t>(std::max(width, 0L)));
      style.indent.assign(static_cast<std::size_t>(std::max(width, 0L)), ' ');
    }
  }
  if (const Value* signs = arguments.get(2, "separators"); signs && !signs->is(Kind::none)) {
    const bool fits = signs->is_list() && signs->items->size() == 2 && (*signs->items)[0].is_text();
    if (!fits || !(*signs->items)[1].is_text()) template_fail("|tojson with these separators");
    style.between = (*signs->items)[0].str(), style.after_key = (*signs->items)[1].str();
  }
  TemplateWriter out(budget);
  JsonWriter(style, out).write(value, 0);
  return out.value();
}

}  // namespace kvscope
