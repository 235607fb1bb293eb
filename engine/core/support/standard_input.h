#pragma once
// Text that is piped in, with the limit that a file has.

#include <string>

namespace kvscope {

/// All of standard input. Throws Error if that is more than max_bytes: a stream may have no end.
std::string read_standard_input(std::size_t max_bytes);

}  // namespace kvscope
