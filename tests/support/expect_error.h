#pragma once
// Runs something that must fail and gives its line.

#include <string>

#include "engine/core/support/error.h"

namespace kvscope::test {

/// The Error's line, or "no error" (which no expectation contains).
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace kvscope::test
