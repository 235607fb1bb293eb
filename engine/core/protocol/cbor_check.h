#pragma once
#include <cstdint>
#include <span>

namespace kvscope {

/// One CBOR value (RFC 8949) of the kinds that messages are made of, and nothing behind it: integers, floats, true, false,
/// null, texts, byte strings, arrays and maps, each of a definite length, within the limits of a message. Throws Error
/// otherwise. Walks over the heads without recursion and without memory, so that nlohmann's reader, which recurses and
/// believes what it reads, is given only what it can bear.
void check_cbor(std::span<const std::uint8_t> bytes);

}  // namespace kvscope
