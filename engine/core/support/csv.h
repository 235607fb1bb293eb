#pragma once
// CSV (RFC 4180): one rule for every table that is written.

#include <string>

namespace kvscope {

/// A field: quoted where it has a comma, a quote or a line end.
inline std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace kvscope
