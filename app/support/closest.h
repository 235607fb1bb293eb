#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace kvscope::app {

/// The candidate closest to `word` if it is close enough to be meant, else empty.
std::string closest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace kvscope::app
