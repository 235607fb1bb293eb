// What libFuzzer calls: the one format that is linked beside this file.

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/format.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string wrong = read_anything(kvscope::fuzz::formats().front(), bytes);
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}
