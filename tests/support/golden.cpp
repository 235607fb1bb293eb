#include "tests/support/golden.h"

#include <zlib.h>

#include <stdexcept>
#include <string>

#include "tests/support/folders.h"

namespace kvscope::test {

nlohmann::json read_golden(const std::filesystem::path& file) {
  std::filesystem::path path = source_folder() / file;
  if (std::filesystem::exists(path.string() + ".gz")) path += ".gz";
  const auto check = [&](bool good) {
    if (!good) throw std::runtime_error("cannot read " + path.string());
  };
  const gzFile in = gzopen(path.c_str(), "rb");  // which reads a plain file as it is
  check(in != nullptr);
  std::string text, part(1u << 16, '\0');
  int n = 0;
  while ((n = gzread(in, part.data(), static_cast<unsigned>(part.size()))) > 0) {
    text.append(part, 0, static_cast<std::size_t>(n));
  }
  check(gzclose(in) == Z_OK && n == 0);
  return nlohmann::json::parse(text);
}

}  // namespace kvscope::test
