#pragma once
// A program that gives scores, at the other end of two pipes: bytes go in, bytes come out. It is a stranger: it may die, hang, or
// write what nobody asked for, and each of these is one line of error. docs/reference/gates.md has what is written.

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/support/child_process.h"
#include "engine/core/support/error.h"

namespace kvscope::engine {

/// What a scorer says of itself when it starts.
struct ScorerOffer {
  std::string name;  // "my.score"
  bool keys = false, values = false, hidden = false;
  int delay = 1;  // the score of token t is known when token t + delay is there
  bool operator==(const ScorerOffer&) const = default;
};

class ScorerProcess {
 public:
  /// Starts `command` by a shell and greets it with one line of JSON. Throws Error (resource).
  ScorerProcess(const std::string& command, const std::string& greeting, std::chrono::milliseconds patience);

  const ScorerOffer& offer() const { return offer_; }
  /// Sends `frame` and gives the n_bytes that come back. Throws Error (resource) for a program that is lost, then and at every
  /// later call.
  std::string_view ask(std::string_view frame, std::size_t n_bytes);
  /// Sends a frame without an answer. A program that is lost is no error here.
  void tell(std::string_view frame);
  bool is_lost() const { return lost_.has_value(); }
  /// What errors call it: "pipe:python my.py".
  const std::string& name() const { return name_; }

 private:
  /// Writes `out`, and reads until received_ has n_bytes, or a line where that is 0.
  void exchange(std::string_view out, std::size_t n_bytes);
  bool has_all(std::size_t n_bytes) const;
  void write_some(std::string_view& out);
  /// Of stdout or stderr; false: the stream has ended.
  bool read_some(int fd, std::string& to);
  void read_stderr();
  ScorerOffer read_offer() const;
  [[noreturn]] void fail(std::string found, std::string expected = "");
  [[noreturn]] void fail_of_end();
  [[noreturn]] void fail_of_flood(std::string expected);

  std::string name_;
  std::chrono::milliseconds patience_;
  ChildProcess child_;
  std::string received_, said_;  // said_: the end of its stderr
  bool stderr_ended_ = false;
  std::optional<Error> lost_;
  ScorerOffer offer_;
};

}  // namespace kvscope::engine
