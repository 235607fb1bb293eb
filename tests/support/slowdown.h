#pragma once
// What a sanitizer makes of time and memory: limits that hold of a release build are multiplied by these.

namespace kvscope::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr int kSlowdown = 10;  // measured 5 to 15 times
inline constexpr int kShadow = 4;     // bytes of shadow and history for each of ours
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr int kSlowdown = 6;  // measured 6.3 at most, beside as many others as there are cores
inline constexpr int kShadow = 2;    // and what was freed is kept in quarantine
#else
inline constexpr int kSlowdown = 1, kShadow = 1;
#endif

}  // namespace kvscope::test
