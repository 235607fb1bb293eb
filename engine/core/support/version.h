#pragma once
// Which build this is.

#include <string_view>

namespace kvscope {

std::string_view version();       // "0.1.0"
std::string_view git_revision();  // short commit id when the build was configured, or "unknown"

}  // namespace kvscope
