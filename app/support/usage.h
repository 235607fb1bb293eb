#pragma once
#include <string>
#include <utility>

#include "engine/core/support/error.h"

namespace kvscope::app {

/// For writable_target(), which every command asks before minutes of work.
inline constexpr const char* kOverwriteHint = "--overwrite replaces it";

/// Throws the Error of something that cannot be asked for, or not now.
[[noreturn]] inline void usage_error(std::string what, std::string found, std::string expected = "",
                                     std::string hint = "") {
  throw Error({.code = ExitCode::usage,
               .file = std::move(what),
               .found = std::move(found),
               .expected = std::move(expected),
               .hint = std::move(hint)});
}

}  // namespace kvscope::app
