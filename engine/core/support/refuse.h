#pragma once
// The Error that readers throw most: of bad input, with its place in the file.

#include <utility>

#include "engine/core/support/error.h"

namespace kvscope {

/// Throws Error (bad input); the parts are as in Error::Parts.
[[noreturn]] inline void refuse(std::string file, std::string where, std::string found, std::string expected = "",
                                std::string hint = "") {
  throw Error({.file = std::move(file),
               .where = std::move(where),
               .found = std::move(found),
               .expected = std::move(expected),
               .hint = std::move(hint)});
}

}  // namespace kvscope
