#include "engine/core/support/python_json.h"

#include <algorithm>

#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/support/json_file.h"

namespace kvscope {

std::string quote_non_numbers(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (in_string || c == '"') {
      if (c == '"') in_string = !in_string;
      const std::size_t n = in_string && c == '\\' && at + 1 < text.size() ? 2 : 1;  // an escape may be of a quote
      out.append(text.substr(at, n));
      at += n;
      continue;
    }
    std::size_t n = 1;
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
      if (!text.substr(at).starts_with(word)) continue;
      n = word.size();
      out.append(1, '"').append(word).append(1, '"');
      break;
    }
    if (n == 1) out.push_back(c);
    at += n;
  }
  return out;
}

nlohmann::json read_python_json(const std::filesystem::path& path, const ReadLimits& limits) {
  std::string bytes = read_file(path, limits.max_bytes);
  if (const auto foreign = recognise_foreign(bytes)) {
    throw Error({.file = path.string(), .found = foreign->found + ", not JSON", .hint = foreign->hint});
  }
  ReadLimits quoted = limits;
  const bool has_words = bytes.find("NaN") != bytes.npos || bytes.find("Infinity") != bytes.npos;
  if (has_words) bytes = quote_non_numbers(bytes);
  quoted.max_bytes = std::max(quoted.max_bytes, bytes.size());
  return parse_json(bytes, path.string(), quoted);
}

}  // namespace kvscope
