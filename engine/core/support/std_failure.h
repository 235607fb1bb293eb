#pragma once
// What the standard library throws, as an Error with its exit code: it is seldom this program that is wrong.

#include <exception>

#include "engine/core/support/error.h"

namespace kvscope {

/// An Error is itself. No memory, no thread and a folder that has gone are ExitCode::resource; what the file system refuses is as
/// throw_errno() has it; the rest is internal.
Error error_of(const std::exception& error);

}  // namespace kvscope
