#pragma once
// CRC-32 of PNG and ZIP (reflected polynomial 0xEDB88320), and base64.

#include <cstdint>
#include <string>
#include <string_view>

namespace kvscope::views {

std::uint32_t crc32(std::string_view bytes);
std::string base64(std::string_view bytes);

}  // namespace kvscope::views
