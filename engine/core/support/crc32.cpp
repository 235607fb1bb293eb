#include "engine/core/support/crc32.h"

#include <array>

namespace kvscope {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr auto kTable = make_table();

}  // namespace

std::uint32_t crc32(std::string_view bytes, std::uint32_t before) {
  std::uint32_t c = ~before;
  for (char b : bytes) c = kTable[(c ^ static_cast<std::uint8_t>(b)) & 0xff] ^ c >> 8;
  return ~c;
}

}  // namespace kvscope
