#pragma once
// Requests as they come, read on a thread of their own so that a cancel is heard while a run computes.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/requests.h"

namespace kvscope::engine {

/// One reader thread, one consumer. `cancel` takes effect at once: on the running request through cancelled(), on a
/// waiting one when its turn comes. The end of the stream and `quit` cancel what is running: nobody is left to hear of
/// it.
class RequestQueue {
 public:
  explicit RequestQueue(Channel& channel);
  /// Joins the reader, which ends with the stream or with `quit`.
  ~RequestQueue();

  /// Waits for the next request; nullopt after `quit` or at the end of the stream. Rethrows what reading threw.
  std::optional<nlohmann::json> next();
  /// True once the request that next() returned last is to stop. The flag that JobContext points at.
  const std::atomic<bool>& cancelled() const { return cancelled_; }
  /// The oldest `policy` request for it that nobody has taken yet.
  std::optional<std::string> take_policy();

 private:
  void read_all();
  /// Both with mutex_ held.
  void steer(const protocol::PolicyRequest& request);
  void steer(const protocol::CancelRequest& request);
  void end(std::exception_ptr error);

  Channel& channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<nlohmann::json> waiting_;
  std::set<int> cancelled_ids_;  // of waiting requests
  std::optional<int> running_;
  std::deque<std::string> policies_;  // for running_
  bool ended_ = false;
  std::exception_ptr error_;
  std::atomic<bool> cancelled_ = false;
  std::thread reader_;  // last: starts when the rest is there
};

}  // namespace kvscope::engine
