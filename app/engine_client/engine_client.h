#pragma once
// The engine as a child process: requests go in, events come out, its death is one more event.
//
// Nothing here blocks the caller: requests are queued for a writer thread (a pipe to an engine that hangs is full after
// 64 KiB), events wait in a queue that a reader thread fills. An engine that fills
// it faster than it is emptied is ended, with a line.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/engine_client/event_queue.h"
#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/engine_offer.h"
#include "engine/core/protocol/requests.h"
#include "engine/core/support/child_process.h"
#include "engine/core/support/patience.h"

namespace kvscope::app {

/// An engine's first message.
struct EngineGreeting {
  int version = 0;
  std::string engine;  // "0.1.0, torch 2.11.0, cuda:0"
  protocol::EngineOffer offer = {};
  /// Throws Error (resource) for another message than a greeting.
  static EngineGreeting read(const nlohmann::json& event);
  /// Throws Error (resource) unless the engine speaks this program's version of the protocol.
  void check_version() const;
};

/// The last event of an engine, in words.
struct EngineEnd {
  std::string reason;
  bool expected = false;
  std::vector<std::string> said;  // the last lines of its stderr that are not empty
  static EngineEnd read(const nlohmann::json& event);
  /// What to install if it found no LibTorch, or one of another version; empty if it ended for another reason.
  std::string missing_torch() const;
};

/// Why an engine ended, from its `ended` event's reason, to follow "the engine": "stopped: exit code 7", or "did not answer for
/// 60 s" and how to wait longer.
std::string end_words(const std::string& reason);

/// One engine process. Events are the protocol's, and one of our own at the end, always the last:
///   ended {reason: text, expected: bool, stderr: [last lines]}
class EngineClient {
 public:
  struct Options {
    /// Goes through /bin/sh -c, so that "ssh gpu01 kvscope-engine" and "cd x && ./engine" both work. "hf" and "hf OPTIONS":
    /// the engine in Python, run by $KVSCOPE_PYTHON or python3. Empty: kvscope-engine beside this executable.
    std::string command;
    std::function<void()> wake;  // called from the reader's thread after new events
    /// Sees each event first, in the reader's thread; true: taken.
    std::function<bool(const nlohmann::json& event)> sink;
    std::chrono::milliseconds patience = default_patience();  // negative: without end
    EventLimits limits = {};                                  // of events that nobody has taken
  };
  /// Starts the process. Throws Error (resource) if it cannot be started.
  explicit EngineClient(Options options);
  /// stop(), if that was not called.
  ~EngineClient();
  EngineClient(const EngineClient&) = delete;
  EngineClient& operator=(const EngineClient&) = delete;

  /// Queues a request and returns its id. After the engine's end it goes nowhere; `ended` tells.
  int request(const protocol::Request& request);
  /// Reserves an id, for a caller that must know it before the request is on its way.
  int next_id();
  void request_with_id(const protocol::Request& request, int id);
  /// A message as it is, with a type that protocol::Request may not have: how an engine is tried.
  void send(nlohmann::json message);
  void cancel(int target_id);
  /// All events that have come; never waits.
  std::vector<nlohmann::json> take_events();
  /// The next event, or nullopt after `timeout`.
  std::optional<nlohmann::json> wait_event(std::chrono::milliseconds timeout);
  bool ended() const;
  pid_t pid() const { return child_.pid(); }
  /// Asks it to quit and does not wait.
  void ask_to_quit();
  /// ask_to_quit(), and kills it if it has not `patience` after it was asked. Joins the threads.
  void stop(std::chrono::milliseconds patience = std::chrono::milliseconds(1500));

 private:
  void read_events();
  void write_requests();
  void read_stderr();
  /// Hands it to the sink or `queue`, and says so.
  template <typename Queue>
  void hand_on(nlohmann::json event, const Queue& queue);
  std::string end_reason(const std::string& read_error);

  Options options_;
  ChildProcess child_;
  std::unique_ptr<Channel> channel_;
  mutable std::mutex mutex_;
  std::condition_variable events_changed_, requests_changed_;
  EventQueue events_;
  std::deque<nlohmann::json> requests_;
  std::deque<std::string> stderr_lines_;
  int next_id_ = 1;
  bool stopping_ = false, ended_ = false;
  std::chrono::steady_clock::time_point asked_to_quit_;
  bool reading_ = true;  // the stream has not ended: nobody else waits for the process, so it may be signalled
  std::thread reader_, writer_, stderr_reader_;
};

}  // namespace kvscope::app
