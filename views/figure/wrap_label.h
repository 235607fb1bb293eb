#pragma once
#include <string>
#include <vector>

namespace kvscope::views {

/// The label in lines of that width, broken after blanks and commas; a word that is wider stays whole.
std::vector<std::string> wrap_label(const std::string& label, double width, double size);

}  // namespace kvscope::views
