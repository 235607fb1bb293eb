#pragma once
// Traces of other machines, copied while the window goes on.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "app/catalog/remote_file.h"
#include "app/session/messages.h"
#include "app/session/worker.h"

namespace kvscope::app {

class RemoteTraces {
 public:
  RemoteTraces(Messages& messages, Revision& revision, std::function<void()> wake);
  /// Ends the copy that goes on.
  ~RemoteTraces();

  /// `then` gets the copy, on this thread. What goes wrong is a banner. Copies are made one after the other.
  void copy(const RemoteFile& file, std::function<void(const std::string& path)> then);
  struct Copying {
    std::string word;
    std::uint64_t done = 0, total = 0;  // bytes; total is 0 until it is known
  };
  /// For the status line.
  std::optional<Copying> copying() const;
  /// Ends the copy that goes on, and drops those that wait.
  void cancel();
  bool busy() const { return worker_.busy(); }
  void poll();

 private:
  bool go_on(unsigned request, Copying now);

  Messages& messages_;
  Revision& revision_;
  std::function<void()> wake_;
  std::atomic<unsigned> n_requests_ = 0, n_cancelled_ = 0;  // those up to here
  mutable std::mutex mutex_;
  std::optional<Copying> copying_;
  std::chrono::steady_clock::time_point shown_{};
  Worker worker_;  // last: its thread ends before what its jobs refer to
};

}  // namespace kvscope::app
