#include "engine/core/support/std_failure.h"

#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

#include "engine/core/support/file.h"

namespace kvscope {
namespace {

Error no_memory() {
  return Error({.code = ExitCode::resource,
                .found = "out of memory",
                .expected = "more memory",
                .hint = "ulimit -v and other programs limit memory"});
}

Error of_path(const std::filesystem::filesystem_error& error) {
  const bool is_current = error.path1().empty() && error.code() == std::errc::no_such_file_or_directory;
  if (is_current) {
    return Error({.code = ExitCode::resource,
                  .file = "the current folder",
                  .found = "it no longer exists",
                  .hint = "change to a folder that exists"});
  }
  try {
    throw_errno(error.code().value(), error.path1(), "cannot be used");
  } catch (const Error& same) {
    return same;
  }
}

}  // namespace

Error error_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return *ours;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return no_memory();
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    if (system->code() == std::errc::not_enough_memory) return no_memory();
    if (const auto* path = dynamic_cast<const std::filesystem::filesystem_error*>(system)) return of_path(*path);
    if (system->code() == std::errc::resource_unavailable_try_again) {
      return Error({.code = ExitCode::resource,
                    .found = "a thread could not be started",
                    .expected = "memory and a process for it",
                    .hint = "ulimit -v and ulimit -u limit them"});
    }
  }
  return Error({.code = ExitCode::internal, .file = "internal", .found = error.what()});
}

}  // namespace kvscope
