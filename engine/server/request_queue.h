#pragma once
// Requests as they come, read on a separate thread so that a cancel is heard while a run computes.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/requests.h"

namespace kvscope::engine {

/// A request that is being served, and what is heard of it meanwhile. It is served as long as this object is held.
struct ServedRequest {
  nlohmann::json message;
  std::string type;
  int id = -1;
  std::atomic<bool> cancelled = false;  // it is to stop. The flag that JobContext points at
  std::deque<std::string> policies;     // of `policy` requests, for RequestQueue::take_policy()
};

/// One reader thread, one consumer. `cancel` takes effect at once: on a request that is served through `cancelled`, on
/// a waiting one when its turn comes. The end of the stream and `quit` cancel all that is served: no client is left.
class RequestQueue {
 public:
  explicit RequestQueue(Channel& channel);
  /// Joins the reader, which ends with the stream or with `quit`.
  ~RequestQueue();

  /// Waits for the next request; null after `quit` or at the end of the stream. Rethrows what reading threw.
  std::shared_ptr<ServedRequest> next();
  /// The next request if it is there and of this type; else null. Does not wait.
  std::shared_ptr<ServedRequest> next_if(std::string_view type);
  /// The oldest `policy` request for it that has not been taken yet.
  std::optional<std::string> take_policy(ServedRequest& request);

 private:
  void read_all();
  // These with mutex_ held.
  void steer(const protocol::PolicyRequest& request);
  void steer(const protocol::CancelRequest& request);
  std::shared_ptr<ServedRequest> serve_first();
  template <typename Steer>
  void for_each_served(const Steer& steer);

  void end(std::exception_ptr error);

  Channel& channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<nlohmann::json> waiting_;
  std::set<int> cancelled_ids_;  // of waiting requests
  std::vector<std::weak_ptr<ServedRequest>> served_;
  bool ended_ = false;
  std::exception_ptr error_;
  std::thread reader_;  // last: starts when the rest is there
};

}  // namespace kvscope::engine
