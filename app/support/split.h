#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace kvscope::app {

/// The parts of a list, without `blanks` around them; empty ones are left out.
std::vector<std::string> split(std::string_view text, char separator, std::string_view blanks = "");

}  // namespace kvscope::app
