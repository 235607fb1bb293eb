#pragma once
// CRC-32 of ZIP and PNG: reflected polynomial 0xEDB88320.

#include <cstdint>
#include <string_view>

namespace kvscope {

/// `before`: of the bytes in front of these, to go on with.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0);

}  // namespace kvscope
