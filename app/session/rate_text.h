#pragma once
#include <string>

#include "engine/core/support/text.h"

namespace kvscope::app {

/// "133 tok/s", "2.4 tok/s", "0.21 tok/s": a slow run has a rate too.
inline std::string rate_text(double tokens_per_s) {
  const int decimals = tokens_per_s < 0.1 ? 3 : tokens_per_s < 1 ? 2 : tokens_per_s < 10 ? 1 : 0;
  return fixed_text(tokens_per_s, decimals) + " tok/s";
}

}  // namespace kvscope::app
