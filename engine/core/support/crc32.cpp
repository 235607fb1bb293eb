#include "engine/core/support/crc32.h"

#include <array>
#include <cstddef>

namespace kvscope {
namespace {

/// Slicing by 8 (Kounavis, Berry 2005): tables[k][b] is what byte b does when k more bytes follow it.
constexpr std::array<std::array<std::uint32_t, 256>, 8> make_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
    tables[0][i] = c;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t i = 0; i < 256; ++i) {
      tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 0xff];
    }
  }
  return tables;
}
constexpr auto kTables = make_tables();

}  // namespace

std::uint32_t crc32(std::string_view bytes, std::uint32_t before) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  std::uint32_t c = ~before;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < 8; ++i) next ^= kTables[7 - i][byte(i) ^ (i < 4 ? c >> (8 * i) & 0xff : 0)];
    c = next;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) c = kTables[0][(c ^ byte(i)) & 0xff] ^ c >> 8;
  return ~c;
}

}  // namespace kvscope
