#pragma once
// The one error type of every reader and command, and what it becomes on the command line.

#include <stdexcept>
#include <string>
#include <string_view>

namespace kvscope {

/// Exit codes of both programs. They are part of the command line's contract. What a signal cancelled ends with 128 and
/// its number: 130 (Ctrl+C), 143 (TERM), 129 (HUP); what writes to a reader that has gone, with 141, as from SIGPIPE.
enum class ExitCode : int {
  done = 0,
  usage = 1,
  bad_input = 2,
  resource = 3,
  internal = 4,
  cancelled = 130,
  closed_pipe = 141
};

/// Something outside the program is not as it must be. One line says all of it:
///
///     error: <file>: <where>: <found>; <expected>; hint: <what to do>
///
/// `where` (a tensor, a key, a byte offset), `expected` and `hint` may be empty. Control characters in any part are
/// escaped when the line is made, so a hostile file name or tensor name cannot write to the terminal.
class Error : public std::runtime_error {
 public:
  struct Parts {
    ExitCode code = ExitCode::bad_input;
    std::string file;      // path or what stands for it ("--budget"); may be empty
    std::string where;     // place inside it
    std::string found;     // what was found; never empty
    std::string expected;  // what was expected
    std::string hint;      // what the person can do
  };
  explicit Error(Parts parts);
  const Parts& parts() const { return parts_; }
  ExitCode code() const { return parts_.code; }

 private:
  Parts parts_;
};

/// The line without "error: " and without a line end. Also Error::what().
std::string format_error(const Error::Parts& parts);

/// Text with control characters, bytes that are not UTF-8 and bidirectional overrides written as \xNN or \u{NNNN},
/// cut to `max_bytes` with an ellipsis. For names that came from a stranger.
std::string escape_for_terminal(std::string_view text, std::size_t max_bytes = 200);

/// The same between double quotes.
std::string in_quotes(std::string_view text, std::size_t max_bytes = 80);

}  // namespace kvscope
