// The methods that text, lists and dicts have in Python. Those that change a list or dict raise in transformers' sandbox.

#include <algorithm>

#include "engine/core/files/tokenizer/template_filters.h"
#include "engine/core/files/tokenizer/template_value.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using Arguments = TemplateArguments;

constexpr std::string_view kTextMethods[] = {
    "strip",    "lstrip",  "rstrip", "split",  "rsplit",       "splitlines",   "startswith",
    "endswith", "replace", "upper",  "lower",  "title",        "find",         "rfind",
    "index",    "count",   "join",   "format", "removeprefix", "removesuffix", "capitalize"};
constexpr std::string_view kListMethods[] = {"index",  "count", "copy", "append",  "extend", "insert",
                                             "remove", "pop",   "sort", "reverse", "clear"};
constexpr std::string_view kDictMethods[] = {"get", "items",   "keys",   "values",     "copy",    "clear",
                                             "pop", "popitem", "update", "setdefault", "fromkeys"};

const std::string& given_text(const Arguments& arguments, std::size_t i) {
  if (i >= arguments.values.size() || !arguments.values[i].is_text()) template_fail("an argument that is not text");
  return arguments.values[i].str();
}

Value list_of(std::vector<TemplateText> parts, Kind kind, TemplateBudget& budget) {
  Value::Items items;
  for (TemplateText& part : parts) items.push_back(Value::of(std::move(part), budget));
  return Value::of(kind, std::move(items), budget);
}

/// str.split() without a separator.
std::vector<TemplateText> words_of(const TemplateText& text, long most) {
  std::vector<TemplateText> parts;
  std::size_t at = 0;
  const auto skip = [&](bool spaces) {
    while (at < text.text.size()) {
      const std::size_t n = python_space(text.text, at);
      if ((n > 0) != spaces) break;
      at += n > 0 ? n : decode_utf8(text.text, at).length;
    }
  };
  for (skip(true); at < text.text.size(); skip(true)) {
    if (static_cast<long>(parts.size()) == most) {
      parts.push_back(text.part(at).strip(false, true, nullptr));
      break;
    }
    const std::size_t begin = at;
    skip(false);
    parts.push_back(text.part(begin, at - begin));
  }
  return parts;
}

std::vector<TemplateText> split(const TemplateText& text, const std::string& separator, long most, bool from_right) {
  std::vector<TemplateText> parts;
  std::size_t begin = 0, end = text.text.size();
  while (static_cast<long>(parts.size()) != most) {
    const std::size_t at =
        from_right ? end < separator.size() ? text.text.npos : text.text.rfind(separator, end - separator.size())
                   : text.text.find(separator, begin);
    if (at == text.text.npos) break;
    if (from_right) {
      parts.push_back(text.part(at + separator.size(), end - at - separator.size()));
      end = at;
    } else {
      parts.push_back(text.part(begin, at - begin));
      begin = at + separator.size();
    }
  }
  parts.push_back(text.part(begin, end - begin));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Value split_method(const TemplateText& text, bool from_right, const Arguments& arguments, TemplateBudget& budget) {
  arguments.expect(0, 2, {"sep", "maxsplit"});
  const Value* separator = arguments.get(0, "sep");
  const long most = arguments.integer(1, "maxsplit", -1);
  budget.make(text.text.size());
  if (!separator || separator->is(Kind::none)) {
    if (from_right && most >= 0) template_fail(".rsplit() at white space");
    return list_of(words_of(text, most), Kind::list, budget);
  }
  if (!separator->is_text() || separator->str().empty()) template_fail(".split() at something that is not text");
  budget.make(2 * text.text.size() / separator->str().size() * sizeof(TemplateText) / 16);
  return list_of(split(text, separator->str(), most, from_right), Kind::list, budget);
}

bool affix(const TemplateText& text, bool at_end, const Arguments& arguments) {
  arguments.expect(1, 1);
  const auto fits = [&](const Value& part) {
    if (!part.is_text()) template_fail("an argument that is not text");
    return at_end ? text.text.ends_with(part.str()) : text.text.starts_with(part.str());
  };
  const Value& wanted = arguments.values[0];
  if (!wanted.is(Kind::tuple)) return fits(wanted);
  return std::any_of(wanted.items->begin(), wanted.items->end(), fits);
}

TemplateText without(const TemplateText& text, bool at_end, const std::string& affix) {
  if (at_end && text.text.ends_with(affix)) return text.part(0, text.text.size() - affix.size());
  return !at_end && text.text.starts_with(affix) ? text.part(affix.size()) : text;
}

/// find, rfind, index: the character's number.
Value position(const TemplateText& text, const std::string& name, const Arguments& arguments) {
  arguments.expect(1, 1);
  const std::string& part = given_text(arguments, 0);
  const std::size_t at = name == "rfind" ? text.text.rfind(part) : text.text.find(part);
  if (at == text.text.npos && name == "index") template_fail(".index() of a text that is not in it");
  if (at == text.text.npos) return Value::of(-1L);
  return Value::of(static_cast<long>(text.part(0, at).characters().size()) - 1);
}

/// "{} {0} {name}".format(...), without format specifications.
Value formatted(const TemplateText& text, const Arguments& arguments, TemplateBudget& budget) {
  TemplateWriter out(budget);
  std::size_t next = 0;
  for (std::size_t at = 0; at < text.text.size();) {
    const char c = text.text[at];
    if ((c == '{' || c == '}') && at + 1 < text.text.size() && text.text[at + 1] == c) {
      out.add(text.part(at, 1));
      at += 2;
    } else if (c == '{') {
      const std::size_t end = std::min(text.text.find('}', at), text.text.size());
      const std::string field = text.text.substr(at + 1, end - at - 1);
      const bool is_number = !field.empty() && field.size() < 4 && field.find_first_not_of("0123456789") == field.npos;
      const std::size_t i = field.empty() ? next++ : is_number ? std::stoul(field) : arguments.values.size();
      const Value* value = arguments.get(i, field);
      if (!value || end == text.text.size() || (i >= arguments.n_plain() && field.empty()))
        template_fail(".format() of this");
      template_write(*value, out);
      at = end + 1;
    } else if (c == '}') {
      template_fail(".format() of this");
    } else {
      out.add(text.part(at++, 1));
    }
  }
  return out.value();
}

Value lines_of(const TemplateText& text, bool keep, TemplateBudget& budget) {
  std::vector<TemplateText> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.text.size();) {
    const std::size_t end = python_line_end(text.text, at);
    if (end == 0) {
      ++at;
      continue;
    }
    budget.make(sizeof(TemplateText));
    lines.push_back(text.part(begin, at + (keep ? end : 0) - begin));
    begin = at += end;
  }
  if (begin < text.text.size()) lines.push_back(text.part(begin));
  return list_of(std::move(lines), Kind::list, budget);
}

Value call_text(const TemplateText& text, const std::string& name, const Arguments& arguments, TemplateBudget& budget) {
  budget.step(text.text.size());
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    arguments.expect(0, 1);
    const bool has_set = !arguments.values.empty() && !arguments.values[0].is(Kind::none);
    return Value::of(text.strip(name != "rstrip", name != "lstrip", has_set ? &given_text(arguments, 0) : nullptr),
                     budget);
  }
  if (name == "split" || name == "rsplit") return split_method(text, name == "rsplit", arguments, budget);
  if (name == "startswith" || name == "endswith") return Value::of(affix(text, name == "endswith", arguments));
  if (name == "splitlines") return lines_of(text, arguments.flag(0, "keepends", false), budget);
  if (name == "find" || name == "rfind" || name == "index") return position(text, name, arguments);
  if (name == "format") return formatted(text, arguments, budget);
  if (name == "replace") {
    arguments.expect(2, 3, {"count"});
    given_text(arguments, 0), given_text(arguments, 1);
    return template_replaced(text, *arguments.values[0].text, *arguments.values[1].text,
                             arguments.integer(2, "count", -1), budget);
  }
  if (name == "removeprefix" || name == "removesuffix") {
    arguments.expect(1, 1);
    return Value::of(without(text, name == "removesuffix", given_text(arguments, 0)), budget);
  }
  if (name == "count") {
    arguments.expect(1, 1);
    if (given_text(arguments, 0).empty()) template_fail(".count() of an empty text");
    return Value::of(static_cast<long>(split(text, given_text(arguments, 0), -1, false).size()) - 1);
  }
  if (name == "join") {
    arguments.expect(1, 1);
    return template_joined(template_items(arguments.values[0], budget), text, true, budget);
  }
  arguments.expect(0, 0);
  return Value::of(template_cased(text, name, false), budget);
}

Value view_of(const Value& dict, const std::string& name, TemplateBudget& budget) {
  Value::Items items;
  for (std::size_t i = 0; i < dict.items->size(); i += 2) {
    const Value &key = (*dict.items)[i], &value = (*dict.items)[i + 1];
    items.push_back(name == "keys" ? key : name == "values" ? value : Value::of(Kind::tuple, {key, value}, budget));
  }
  return Value::of(Kind::view, std::move(items), budget);
}

Value call_dict(const Value& dict, const std::string& name, const Arguments& arguments, TemplateBudget& budget) {
  if (name == "get") {
    arguments.expect(1, 2);
    const Value* found = dict.find(arguments.values[0], budget);
    return found ? *found : arguments.values.size() > 1 ? arguments.values[1] : Value::none();
  }
  arguments.expect(0, 0);
  if (name == "copy") return dict;
  if (name == "keys" || name == "values" || name == "items") return view_of(dict, name, budget);
  template_fail("." + name + "(), which changes a dict");
}

Value call_list(const Value& list, const std::string& name, const Arguments& arguments, TemplateBudget& budget) {
  if (name == "copy") return list;
  if (name != "index" && name != "count") template_fail("." + name + "(), which changes a list");
  arguments.expect(1, 1);
  long count = 0;
  for (std::size_t i = 0; i < list.items->size(); ++i) {
    if (!template_equal((*list.items)[i], arguments.values[0], budget)) continue;
    if (name == "index") return Value::of(static_cast<long>(i));
    ++count;
  }
  if (name == "index") template_fail(".index() of something that is not in the list");
  return Value::of(count);
}

}  // namespace

bool is_template_method(const Value& value, std::string_view name) {
  const auto is_in = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (value.is_text()) return is_in(kTextMethods);
  if (value.is(Kind::list)) return is_in(kListMethods);
  if (value.is(Kind::tuple)) return name == "index" || name == "count";
  if (value.is(Kind::loop)) return name == "cycle" || name == "changed";
  return value.is(Kind::dict) && is_in(kDictMethods);
}

Value template_method(const Value& value, const std::string& name, const Arguments& arguments, TemplateBudget& budget) {
  budget.step();
  if (value.is_text()) return call_text(*value.text, name, arguments, budget);
  if (value.is(Kind::dict)) return call_dict(value, name, arguments, budget);
  return call_list(value, name, arguments, budget);
}

Value template_replaced(const TemplateText& text, const TemplateText& old, const TemplateText& by, long most,
                        TemplateBudget& budget) {
  TemplateWriter out(budget);
  std::size_t begin = 0;
  if (old.text.empty()) template_fail("a replacement of nothing");
  for (std::size_t at; most-- != 0 && (at = text.text.find(old.text, begin)) != text.text.npos;) {
    out.add(text.part(begin, at - begin));
    out.add(by);
    begin = at + old.text.size();
  }
  out.add(text.part(begin));
  return out.value();
}

Value template_joined(const Value::Items& items, const TemplateText& between, bool only_text, TemplateBudget& budget) {
  TemplateWriter out(budget);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (only_text && !items[i].is_text()) template_fail(".join() of something that is not text");
    if (i > 0) out.add(between);
    template_write(items[i], out);
  }
  return out.value();
}

}  // namespace kvscope
