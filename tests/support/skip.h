#pragma once
// Catch2 v2 has no SKIP: a test that lacks its device says why and returns; the runner then exits with kSkipCode.

#include <cstdio>

namespace kvscope::test {

inline constexpr int kSkipCode = 4;
extern bool g_skipped;

/// Use as: if (!has_device) return skip("no CUDA device");
inline void skip(const char* reason) {
  g_skipped = true;
  std::printf("SKIPPED: %s\n", reason);
}

}  // namespace kvscope::test
