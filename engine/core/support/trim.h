#pragma once

#include <string_view>

namespace kvscope {

/// Without the characters of `blanks` at either end.
inline std::string_view trim(std::string_view text, std::string_view blanks = " ") {
  const std::size_t begin = text.find_first_not_of(blanks);
  return begin == std::string_view::npos ? text.substr(0, 0)
                                         : text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

}  // namespace kvscope
