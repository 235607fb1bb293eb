#pragma once
// How large std::regex makes a stranger's pattern, before it is made.

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace kvscope {

/// At most so many states: the pattern's length, times every number in braces; `most` + 1 for any more. Repetitions are
/// copies inside of std::regex, which goes through them by recursion.
inline std::size_t regex_states(std::string_view pattern, std::size_t most) {
  std::size_t states = pattern.size(), number = 0, largest = 1;
  bool in_braces = false;
  for (const char c : pattern) {
    if (c == '{') in_braces = true, largest = 1, number = 0;
    if (in_braces && c >= '0' && c <= '9') number = std::min<std::size_t>(number * 10 + (c - '0'), most);
    if (in_braces && (c == ',' || c == '}')) largest = std::max(largest, number), number = 0;
    if (in_braces && c == '}') states = std::min(states * largest, most + 1), in_braces = false;
  }
  return states;
}

}  // namespace kvscope
