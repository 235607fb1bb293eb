#pragma once
// Unicode normalisation form C.

#include <string>
#include <string_view>

namespace kvscope {

/// True if `text` certainly is in form C already (quick and cautious: everything below U+0300 is).
bool is_surely_nfc(std::string_view text);
/// Form C; bytes that are not UTF-8 stay as they are.
std::string to_nfc(std::string_view text);

}  // namespace kvscope
