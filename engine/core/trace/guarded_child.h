#pragma once
// The parent's side of a guarded reader: this program again as a child that opens a stranger's HDF5 file (trace_child.h says
// why), sends frames (trace_message.h), and may crash, hang or lie.

#include <sys/types.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>

#include "engine/core/support/file.h"
#include "engine/core/trace/trace_child.h"
#include "engine/core/trace/trace_message.h"

namespace kvscope::trace {

class GuardedChild {
 public:
  /// Starts `PROGRAM FLAG PATH`. `wanted` is what its errors expect: "a whole KVScope trace".
  GuardedChild(const std::filesystem::path& program, const char* flag, const std::filesystem::path& path,
               const char* wanted, const ChildLimits& limits);
  ~GuardedChild() { end(true); }
  GuardedChild(const GuardedChild&) = delete;
  GuardedChild& operator=(const GuardedChild&) = delete;

  /// Calls `read_it`, which uses the functions below, within the limits. BadMessage out of it becomes an Error. A child that
  /// was lost stays lost: the same Error again.
  template <typename Answer>
  std::invoke_result_t<Answer> answer(Answer read_it) {
    begin();
    try {
      return read_it();
    } catch (const BadMessage&) {
      fail("the HDF5 reader returned invalid data for this file");
    }
  }

  /// A child that has gone is seen when its answer is read, which says of what.
  void ask(std::int32_t what);
  /// Of the next frame, without the kind; an Error that was sent in its place is thrown. No frame but a column is longer
  /// than `most`.
  std::size_t frame_size(MessageKind wanted, std::size_t most = std::size_t{64} << 20);
  std::string frame(MessageKind wanted, std::size_t most = std::size_t{64} << 20) {
    return text(frame_size(wanted, most));
  }
  /// Fills `to`. Throws Error if the child crashed, hung or went.
  void read(std::span<char> to);
  /// More time for an answer that is known to be long.
  void extend(std::chrono::milliseconds time) { work_ += time; }

 private:
  using Clock = std::chrono::steady_clock;

  void begin();
  std::string text(std::size_t size);
  [[noreturn]] void fail(Error::Parts parts);
  [[noreturn]] void fail(std::string found);
  [[noreturn]] void fail_of_end();
  std::chrono::nanoseconds cpu_time() const;
  void check_patience();
  int end(bool kill_first);

  std::filesystem::path path_;
  const char* wanted_;
  ChildLimits limits_;
  FileHandle socket_;
  pid_t pid_ = -1;
  std::exception_ptr lost_;                // why there is no child any more
  std::chrono::nanoseconds work_{};        // CPU time that this answer may take
  Clock::time_point begun_;                // when it was asked
  std::chrono::nanoseconds cpu_before_{};  // of the child, then
};

}  // namespace kvscope::trace
