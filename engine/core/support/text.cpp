#include "engine/core/support/text.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iterator>

namespace kvscope {

std::string number_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string number_text(double value, int digits) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr};
}

std::string brief_number(double value) {
  constexpr std::size_t kShort = 8;  // characters: "0.999999"
  if (value == std::trunc(value) && std::abs(value) < 1e15) return fixed_text(value, 0);
  std::string text = number_text(value);
  if (text.size() <= kShort) return text;
  int digits = 4;  // and as many more as tell it from a whole number
  while ((text = number_text(value, digits)).find('.') == std::string::npos && digits < 17) ++digits;
  return text;
}

std::string fixed_text(double value, int decimals) {
  char text[400];  // the largest double has 309 digits before its point
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, decimals).ptr};
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; std::abs(bytes) >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return number_text(bytes, 4) + " " + kUnits[unit];
}

std::string hex_text(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace kvscope
