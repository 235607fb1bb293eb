// glibc has these since 2.36, and the archives of Debian 12 ask for them. The program that is linked from archives brings its own,
// so that it runs on glibc 2.35 (Ubuntu 22.04).
#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" void arc4random_buf(void* to, std::size_t n) {
  for (auto* byte = static_cast<unsigned char*>(to); n > 0;) {
    const ssize_t got = ::getrandom(byte, n < 256 ? n : 256, 0);  // up to 256 bytes come whole
    if (got < 0) std::abort();
    byte += got, n -= static_cast<std::size_t>(got);
  }
}

extern "C" std::uint32_t arc4random() {
  std::uint32_t value;
  arc4random_buf(&value, sizeof value);
  return value;
}
