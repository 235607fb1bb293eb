#pragma once
// Base64 of RFC 4648, as data URLs have it.

#include <string>
#include <string_view>

namespace kvscope::views {

std::string base64(std::string_view bytes);

}  // namespace kvscope::views
