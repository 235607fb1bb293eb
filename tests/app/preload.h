#pragma once
// LD_PRELOAD of the fault injectors.

#include <string>

namespace kvscope::test {

/// Its value for a library. A sanitizer's runtime must come first, or it ends the program before main().
inline std::string preload(const std::string& library) {
  const std::string runtime = KVSCOPE_SANITIZER_RUNTIME;
  return runtime.empty() ? library : runtime + ":" + library;
}

/// Whether malloc() is a sanitizer's own.
inline bool has_own_malloc() { return !std::string(KVSCOPE_SANITIZER_RUNTIME).empty(); }

}  // namespace kvscope::test
