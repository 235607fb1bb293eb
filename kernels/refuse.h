#pragma once
#include <stdexcept>
#include <string>

namespace kvscope::kernels {

/// Throws std::invalid_argument "<op>: <name> is <value>; expected <expected>".
[[noreturn]] inline void refuse(const char* op, const char* name, long long value, const std::string& expected) {
  throw std::invalid_argument(std::string(op) + ": " + name + " is " + std::to_string(value) + "; expected " +
                              expected);
}

}  // namespace kvscope::kernels
