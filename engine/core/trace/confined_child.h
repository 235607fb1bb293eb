#pragma once
// The child's side of a guarded reader: a process that may crash or hang over a damaged file, and can do no more than that.

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "engine/core/support/error.h"
#include "engine/core/trace/trace_message.h"

namespace kvscope::trace {

/// To be called before the file is opened: 4 GiB of address space, no files to write, no other files of ours, no core, and
/// the end with whoever asked.
void confine();

/// An Error's code where memory is short: the file's fault, unless this process was given less than the 4 GiB.
ExitCode code_of_no_memory();

/// 60 s of CPU from now on: a child that its parent has lost must not run for ever.
void limit_cpu();

/// On stdout; false if nobody listens.
bool write_frame(MessageKind kind, std::string_view body);

/// What was sent, or an Error in its place, which says that `wanted` was expected; false if nobody listens.
template <typename Answer>
bool answer_with(const std::string& file, const char* wanted, Answer answer) {
  MessageWriter out;
  try {
    return answer();
  } catch (const Error& error) {
    put_error(out, error.parts());
  } catch (const std::bad_alloc&) {
    put_error(out, {.code = code_of_no_memory(),
                    .file = file,
                    .found = "not enough memory to read it",
                    .expected = std::string(wanted) + ", and memory for it"});
  } catch (const std::exception& error) {
    put_error(out, {.file = file, .found = std::string("could not be read: ") + error.what(), .expected = wanted});
  }
  return write_frame(MessageKind::error, out.bytes());
}

}  // namespace kvscope::trace
