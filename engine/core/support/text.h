#pragma once
// Numbers, hashes and the time as text, the same in every locale.

#include <cstdint>
#include <string>

namespace kvscope {

/// The shortest text that reads back as the same number: "0.1", "1e+20".
std::string number_text(double value);
/// At most `digits` significant digits, as printf's %.*g has them: "0.333".
std::string number_text(double value, int digits);
/// As a screen has it: of a number with no end of digits four significant ones: "131072", "0.99995", "0.8667".
std::string brief_number(double value);
/// With so many decimals, as printf's %.*f has them: "0.50".
std::string fixed_text(double value, int decimals);
/// In the unit of 1,024s that suits it, four significant digits: "9.34 MiB".
std::string bytes_text(double bytes);
/// 16 hexadecimal digits.
std::string hex_text(std::uint64_t value);
/// The time of the day in UTC: "2026-11-21T03:14:15Z".
std::string utc_now();

}  // namespace kvscope
