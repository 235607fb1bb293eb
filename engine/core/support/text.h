#pragma once
// Numbers, hashes and the time as text, the same in every locale.

#include <string>

namespace kvscope {

/// The time of the day in UTC: "2026-11-21T03:14:15Z".
std::string utc_now();

}  // namespace kvscope
