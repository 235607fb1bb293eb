#pragma once
// Unicode normalisation form C.

#include <string>
#include <string_view>

namespace kvscope {

/// False also for some texts that form C would leave as they are.
bool is_surely_nfc(std::string_view text);
/// Form C; bytes that are not UTF-8 stay as they are.
std::string to_nfc(std::string_view text);

}  // namespace kvscope
