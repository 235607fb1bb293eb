#pragma once
// ByteLevel's alphabet: every byte has a printable character, so that tokens can be written as text.

#include <optional>
#include <string>
#include <string_view>

namespace kvscope {

/// The character of a byte: itself for printable Latin-1, else U+0100 and up, in the order of the bytes.
char32_t byte_char(unsigned char byte);
/// The bytes that a token stands for, or nothing if it has a character outside the alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);

}  // namespace kvscope
