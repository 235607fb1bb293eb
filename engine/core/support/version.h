#pragma once
// Which build this is.

#include <string_view>

namespace kvscope {

std::string_view version();       // "0.1.0"
std::string_view git_revision();  // short commit id when the build was configured, or "unknown"
std::string_view commit_date();   // "2026-01-31", of that commit; empty if it is unknown

}  // namespace kvscope
