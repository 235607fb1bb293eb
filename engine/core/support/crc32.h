#pragma once
// CRC-32 of ZIP and PNG: reflected polynomial 0xEDB88320.

#include <cstdint>
#include <string_view>

namespace kvscope {

std::uint32_t crc32(std::string_view bytes);

}  // namespace kvscope
