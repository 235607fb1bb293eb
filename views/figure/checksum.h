#pragma once
// CRC-32 of PNG and ZIP, and base64.

#include <string>
#include <string_view>

#include "engine/core/support/crc32.h"

namespace kvscope::views {

using kvscope::crc32;
std::string base64(std::string_view bytes);

}  // namespace kvscope::views
