// str() and repr() of a value, and format % values.

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
std::string digits_of(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
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
    const auto next = [&] { return at < format_.text.size() ? format_.text[at] : '\0'; };
    const auto number = [&] {
      std::size_t n = 0;
      for (; next() >= '0' && next() <= '9' && n < 1'000'000'000; ++at)
        n = n * 10 + static_cast<std::size_t>(next() - '0');
      return n;
    };
    const auto takes = [&](char c) { return next() == c && (++at, true); };
    const bool left = takes('-'), zeros = takes('0');
    const std::size_t width = number();
    const bool has_precision = takes('.');
    const std::size_t precision = has_precision ? number() : 6;
    const char kind = next();
    if (kind == '%' && width == 0 && !has_precision) {
      out_.add("%");
      return at + 1;
    }
    const Value& value = next_value();
    if ((kind == 's' || kind == 'r') && !has_precision) {
      TemplateWriter part(out_.budget());
      kind == 's' ? template_write(value, part) : write_repr(value, part, 0);
      pad(part.text(), width, left);
    } else if (kind == 'f' || (kind == 'd' && !has_precision)) {
      if (!value.is_number() || std::fabs(value.real()) > 4e18 || width > 100 || precision > 100)
        template_fail("this format");
      const int columns = static_cast<int>(width);
      char number_text[256];
      if (kind == 'd') {
        const long whole = value.is(Kind::real) ? static_cast<long>(value.fraction) : value.number;
        std::snprintf(number_text, sizeof number_text, left ? "%-*ld" : zeros ? "%0*ld" : "%*ld", columns, whole);
      } else {
        const char* const form = left ? "%-*.*f" : zeros ? "%0*.*f" : "%*.*f";
        std::snprintf(number_text, sizeof number_text, form, columns, static_cast<int>(precision), value.real());
      }
      out_.add(number_text);
    } else {
      template_fail("this format");
    }
    return at + 1;
  }

  const Value& next_value() {
    const bool is_tuple = arguments_.is(Kind::tuple);
    if (is_tuple ? next_ >= arguments_.items->size() : next_ > 0) template_fail("a format with too few values");
    return is_tuple ? (*arguments_.items)[next_++] : (++next_, arguments_);
  }

  void pad(const TemplateText& text, std::size_t width, bool left) {
    const std::size_t size = text.characters().size() - 1, missing = width > size ? width - size : 0;
    if (!left) out_.add(missing, ' ');
    out_.add(text);
    if (left) out_.add(missing, ' ');
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
    case Kind::real:
      return out.add(digits_of(value.fraction));
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

Value template_text(const Value& value, TemplateBudget& budget) {
  if (value.is_text()) return value;
  TemplateWriter out(budget);
  template_write(value, out);
  return out.value();
}

Value template_percent(const TemplateText& format, const Value& arguments, TemplateBudget& budget) {
  return PercentReader(format, arguments, budget).read();
}

}  // namespace kvscope
