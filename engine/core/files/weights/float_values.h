#pragma once
// Stored numbers of 16 or 32 bits as float32.

#include <string>
#include <vector>

namespace kvscope {

/// Values of `bytes` as float32; type_name is "F32", "F16" or "BF16". Little-endian.
std::vector<float> to_floats(const std::string& type_name, const std::string& bytes);

}  // namespace kvscope
