// str(), repr() and json.dumps() of a value, and format % values.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "engine/core/files/tokenizer/template_value.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;

constexpr int kMaxInItself = 100;  // a namespace may be in itself

/// Python's repr: the shortest digits that give the number, with an exponent below 1e-4 and from 1e16.
std::string digits_of(double number, const char* infinity, const char* nan) {
  if (std::isnan(number)) return nan;
  if (std::isinf(number)) return std::string(number < 0 ? "-" : "") + infinity;
  const double size = std::fabs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char text[64];
  const auto end =
      std::to_chars(text, text + sizeof text, number, plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string digits(text, end.ptr);
  if (plain && digits.find('.') == digits.npos) digits += ".0";
  return digits;
}

/// Between quotes as Python writes a string; characters past ASCII stay, but for those that Python does not print.
void write_quoted(const TemplateText& text, TemplateWriter& out) {
  const bool single = text.text.find('\'') == text.text.npos || text.text.find('"') != text.text.npos;
  const char quote = single ? '\'' : '"';
  const TemplateText::Origin origin = text.is_said() ? TemplateText::said : TemplateText::written;
  std::string quoted(1, quote);
  for (std::size_t at = 0; at < text.text.size();) {
    const Utf8Char c = decode_utf8(text.text, at);
    const char byte = text.text[at];
    char code[16];
    if (byte == quote || byte == '\\') {
      quoted += '\\';
      quoted += byte;
    } else if (byte == '\n' || byte == '\r' || byte == '\t') {
      quoted += byte == '\n' ? "\\n" : byte == '\r' ? "\\r" : "\\t";
    } else if (c.code_point < 0x20 || (c.code_point >= 0x7F && c.code_point < 0xA1) || c.code_point == 0xAD) {
      std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned>(c.code_point));
      quoted += code;
    } else if (c.code_point >= 0x2000 && (python_space(text.text, at) > 0 || c.code_point <= 0x200F)) {
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c.code_point));
      quoted += code;
    } else {
      quoted += text.text.substr(at, c.length);
    }
    at += c.length;
  }
  out.add(quoted + quote, origin);
}

void write_items(const Value& value, TemplateWriter& out, int depth);

void write_repr(const Value& value, TemplateWriter& out, int depth) {
  out.budget().step();
  if (depth > kMaxInItself) template_fail("a value that is in itself");
  switch (value.kind) {
    case Kind::undefined:
      return out.add("Undefined");
    case Kind::text:
      return write_quoted(*value.text, out);
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
      return write_items(value, out, depth + 1);
    case Kind::space: {
      out.add("<Namespace {");
      bool first = true;
      for (const auto& [name, field] : *value.fields) {
        out.add(std::exchange(first, false) ? "" : ", ");
        write_quoted(TemplateText(name, TemplateText::written), out);
        out.add(": ");
        write_repr(field, out, depth + 1);
      }
      return out.add("}>");
    }
    default:
      return template_write(value, out);
  }
}

void write_items(const Value& value, TemplateWriter& out, int depth) {
  if (value.is(Kind::view)) template_fail("a view of a dict, printed");
  const bool is_dict = value.is(Kind::dict);
  out.add(is_dict ? "{" : value.is(Kind::list) ? "[" : "(");
  for (std::size_t i = 0; i < value.items->size(); ++i) {
    if (i > 0) out.add(is_dict && i % 2 == 1 ? ": " : ", ");
    write_repr((*value.items)[i], out, depth);
  }
  if (value.is(Kind::tuple) && value.items->size() == 1) out.add(",");
  out.add(is_dict ? "}" : value.is(Kind::list) ? "]" : ")");
}

void write_json_text(const TemplateText& text, bool ascii, TemplateWriter& out) {
  std::string quoted = "\"";
  for (std::size_t at = 0; at < text.text.size();) {
    const Utf8Char c = decode_utf8(text.text, at);
    const std::string_view bytes = std::string_view(text.text).substr(at, c.length);
    constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
    const std::size_t i = kEscaped.find(bytes);
    char code[16];
    if (i != kEscaped.npos) {
      quoted += '\\';
      quoted += kNames[i];
    } else if (c.code_point > 0xFFFF && ascii) {
      const char32_t low = c.code_point - 0x10000;
      std::snprintf(code, sizeof code, "\\u%04x\\u%04x", static_cast<unsigned>(0xD800 + (low >> 10)),
                    static_cast<unsigned>(0xDC00 + (low & 0x3FF)));
      quoted += code;
    } else if (c.valid && (c.code_point < 0x20 || (ascii && c.code_point >= 0x7F))) {
      std::snprintf(code, sizeof code, c.code_point == 0x7F ? "\x7F" : "\\u%04x", static_cast<unsigned>(c.code_point));
      quoted += code;
    } else {
      quoted += bytes;
    }
    at += c.length;
  }
  out.add(quoted + '"', text.is_said() ? TemplateText::said : TemplateText::written);
}

class JsonWriter {
 public:
  JsonWriter(const TemplateJsonStyle& style, TemplateWriter& out) : style_(style), out_(out) {}

  void write(const Value& value, int level) {
    out_.budget().step();
    switch (value.kind) {
      case Kind::none:
        return out_.add("null");
      case Kind::boolean:
        return out_.add(value.number ? "true" : "false");
      case Kind::integer:
        return out_.add(std::to_string(value.number));
      case Kind::real:
        return out_.add(digits_of(value.fraction, "Infinity", "NaN"));
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

  const TemplateJsonStyle& style_;
  TemplateWriter& out_;
};

/// One %d, %s, ... of a format; `at` is past it then.
class PercentReader {
 public:
  PercentReader(const TemplateText& format, const Value& arguments, TemplateBudget& budget)
      : format_(format), arguments_(arguments), out_(budget) {}

  Value read() {
    const std::string& text = format_.text;
    std::size_t begin = 0;
    for (std::size_t at; (at = text.find('%', begin)) != text.npos; begin = at) {
      out_.add(format_.part(begin, at - begin));
      at = directive(at + 1);
    }
    out_.add(format_.part(begin));
    const std::size_t given = arguments_.is(Kind::tuple)  ? arguments_.items->size()
                              : arguments_.is(Kind::dict) ? next_
                                                          : 1;
    if (next_ != given) template_fail("a format with another number of values");
    return out_.value();
  }

 private:
  std::size_t directive(std::size_t at) {
    const std::string& text = format_.text;
    const auto number = [&] {
      std::size_t n = 0;
      for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && n < 1'000'000'000; ++at) {
        n = n * 10 + static_cast<std::size_t>(text[at] - '0');
      }
      return n;
    };
    const bool left = at < text.size() && text[at] == '-';
    at += left;
    const bool zeros = at < text.size() && text[at] == '0';
    const std::size_t width = number();
    const bool has_precision = at < text.size() && text[at] == '.';
    at += has_precision;
    const std::size_t precision = has_precision ? number() : 6;
    const char kind = at < text.size() ? text[at] : '\0';
    TemplateWriter part(out_.budget());
    if (kind == '%') {
      part.add("%");
    } else {
      write(kind, has_precision, precision, part);
    }
    const std::size_t size = part.text().characters().size() - 1, missing = width > size ? width - size : 0;
    if (zeros && !left && missing > 0 && kind != 's' && part.text().text.starts_with('-')) template_fail("this format");
    if (!left) out_.add(missing, zeros && kind != 's' && kind != 'r' ? '0' : ' ');
    out_.add(part.text());
    if (left) out_.add(missing, ' ');
    return at + 1;
  }

  void write(char kind, bool has_precision, std::size_t precision, TemplateWriter& part) {
    const bool is_tuple = arguments_.is(Kind::tuple);
    if (is_tuple ? next_ >= arguments_.items->size() : next_ > 0) template_fail("a format with too few values");
    const Value& value = is_tuple ? (*arguments_.items)[next_] : arguments_;
    ++next_;
    if ((kind == 's' || kind == 'r') && !has_precision) {
      kind == 's' ? template_write(value, part) : template_write_repr(value, part);
    } else if ((kind == 'd' || kind == 'i') && value.is_number() && !has_precision) {
      part.add(std::to_string(value.is(Kind::real) ? static_cast<long>(value.fraction) : value.number));
    } else if (kind == 'f' && value.is_number() && precision <= 100) {
      char text[512];
      const int n = std::snprintf(text, sizeof text, "%.*f", static_cast<int>(precision), value.real());
      part.add(std::string_view(text, static_cast<std::size_t>(n)));
    } else {
      template_fail("this format");
    }
  }

  const TemplateText& format_;
  const Value& arguments_;
  TemplateWriter out_;
  std::size_t next_ = 0;
};

}  // namespace

void template_write(const Value& value, TemplateWriter& out) {
  switch (value.kind) {
    case Kind::undefined:
      return;
    case Kind::none:
      return out.add("None");
    case Kind::boolean:
      return out.add(value.number ? "True" : "False");
    case Kind::integer:
      return out.add(std::to_string(value.number));
    case Kind::real: {
      std::string digits = digits_of(value.fraction, "inf", "nan");
      return out.add(digits);
    }
    case Kind::text:
      return out.add(*value.text);
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::space:
    case Kind::view:
      return write_repr(value, out, 0);
    default:
      template_fail("a function, loop or filter that is printed");
  }
}

void template_write_repr(const Value& value, TemplateWriter& out) { write_repr(value, out, 0); }

Value template_text(const Value& value, TemplateBudget& budget) {
  if (value.is_text()) return value;
  TemplateWriter out(budget);
  template_write(value, out);
  return out.value();
}

void template_write_json(const Value& value, const TemplateJsonStyle& style, TemplateWriter& out) {
  JsonWriter(style, out).write(value, 0);
}

Value template_percent(const TemplateText& format, const Value& arguments, TemplateBudget& budget) {
  return PercentReader(format, arguments, budget).read();
}

}  // namespace kvscope
