#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvscope {

/// One CBOR value (RFC 8949) of the kinds that messages are made of, and nothing behind it: integers, floats, true, false,
/// null, texts, byte strings, arrays and maps, each of a definite length, within the limits of a message. Throws Error
/// otherwise. Walks over the heads without recursion and without memory, so that nlohmann's reader, which recurses and
/// believes what it reads, is given only what it can bear.
///
/// Returns the long byte strings that are values of the outermost map, in order: nlohmann's reader takes them byte by byte, which
/// is most of the time that a message of a prompt needs.
struct LongBytes {
  std::string_view key;
  std::size_t head;                       // where its head begins
  std::span<const std::uint8_t> payload;  // after the head
};
std::vector<LongBytes> check_cbor(std::span<const std::uint8_t> bytes);

}  // namespace kvscope
