#pragma once
// The suite's side of the pipe: one request at a time, a time limit for each, and no event that belongs to no request.

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/engine_client/engine_client.h"
#include "engine/core/support/error.h"

namespace kvscope::app::conformance {

class Conversation {
 public:
  using Handler = std::function<void(const nlohmann::json& event)>;
  using HandlerOfMany = std::function<void(std::size_t place, const nlohmann::json& event)>;

  /// `patience`: between two events of a request. A request as a whole may take ten times as long.
  Conversation(const std::string& command, std::chrono::milliseconds patience);

  /// The engine's first message. Throws EndOfSuite if none comes.
  nlohmann::json first_message();
  /// Sends a message and returns the event that ends it, `done` or `error`; `handler` sees all its events. Throws Failure for
  /// an event that belongs to no request, or if the request does not end in time; EndOfSuite if the engine has ended.
  nlohmann::json ask(nlohmann::json message, const Handler& handler = {});
  /// The same where only `done` will do: `error` throws Failure.
  nlohmann::json done(nlohmann::json message, const Handler& handler = {});
  nlohmann::json done(const protocol::Request& request, const Handler& handler = {});
  /// Sends several messages at once and waits until each has ended in `done`; `handler` sees all their events.
  void done_together(std::vector<nlohmann::json> messages, const HandlerOfMany& handler);
  /// The same where only `error` will do. Checks that it says something, in one line, with a code.
  Error refused(nlohmann::json message, const std::string& what);
  /// For requests without an answer: `cancel` and `policy`.
  void steer(const protocol::Request& request);
  /// Asks the engine to end, and returns how it did: "exit code 0". Throws Failure if it does not end in time.
  std::string quit();
  /// The request that is under way, for a handler.
  int current() const { return current_; }
  std::chrono::milliseconds patience() const { return patience_; }

 private:
  using Clock = std::chrono::steady_clock;
  int send(nlohmann::json& message);
  nlohmann::json wait_for_end(int id, const Handler& handler);
  void wait_for_ends(const std::vector<int>& ids, const HandlerOfMany& handler);
  /// Throws Failure if that was too long.
  void check_patience(Clock::time_point start, Clock::time_point last_event, const std::string& name) const;
  std::optional<nlohmann::json> next_event(std::chrono::milliseconds wait);
  bool belongs(const nlohmann::json& event, int id) const;
  void settle();
  void abandon(int id);
  std::string name_of(int id) const;

  EngineClient client_;
  std::chrono::milliseconds patience_;
  std::map<int, std::string> types_;  // of every request that was sent
  std::set<int> ended_, abandoned_;
  int current_ = -1, n_unanswered_ = 0;
};

/// "error: ..." of an error event, in one line.
std::string error_text(const nlohmann::json& event);

}  // namespace kvscope::app::conformance
