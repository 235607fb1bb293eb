#include "engine/core/support/patience.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "engine/core/support/error.h"

namespace kvscope {

std::chrono::milliseconds default_patience() {
  constexpr int kDefault = 60, kMax = 86'400;
  const char* text = std::getenv("KVSCOPE_ENGINE_TIMEOUT");
  if (text == nullptr || *text == '\0') return std::chrono::seconds(kDefault);
  int seconds = -1;
  const char* end = text + std::strlen(text);
  const auto read = std::from_chars(text, end, seconds);
  if (read.ec != std::errc() || read.ptr != end || seconds < 0 || seconds > kMax)
    throw Error({.code = ExitCode::usage,
                 .file = "KVSCOPE_ENGINE_TIMEOUT",
                 .found = in_quotes(text),
                 .expected = "seconds, 1 to 86400, or 0 for no limit"});
  return seconds == 0 ? std::chrono::milliseconds(-1) : std::chrono::seconds(seconds);
}

}  // namespace kvscope
