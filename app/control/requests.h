#pragma once
// What scripts and tests may ask of the running program, as JSON objects:
//
//   {"command": "run.start", "args": {...}}          -> {"ok": true, "result": ...}
//   {"query": "state"}                               -> {"ok": true, "state": {...}}   Session::state() and "frame"
//   {"query": "item", "id": "strip.token.17"}        -> {"ok": true, "rect": [x, y, w, h]}   in pixels of the window
//   {"query": "text", "id": "status"}                -> {"ok": true, "text": what is written there, or null}
//   {"query": "items"} | {"query": "commands"}       -> {"ok": true, "items": [...]}
//   {"query": "wait", "until": {"/running": false, "/a/n_tokens": {"at_least": 9}}, "timeout": 10}
//                                                    -> {"ok": true} once all hold of the state
//
// A screenshot waits until all views have computed what they show. "timeout" is its limit too.
// until: JSON pointers into the state; a value must be equal, or {"at_least": n}, {"contains": text}, {"not": value}.
// What goes wrong is {"ok": false, "error": text}.

#include <chrono>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

namespace kvscope::app {

/// Requests that wait for their answer. All functions on the window's thread.
class Requests {
 public:
  struct Host {
    std::function<nlohmann::json(const std::string& id, const nlohmann::json& args)> execute;  // throws Error
    std::function<nlohmann::json()> state;
    std::function<nlohmann::json(const std::string& id)> item;  // rect or null
    std::function<nlohmann::json(const std::string& id)> text;  // what is written there, or null
    std::function<nlohmann::json()> items, commands;
    std::function<bool()> busy;          // a command's effect is still to come (a screenshot, say): its answer waits
    std::function<void()> give_up = {};  // the effect is not waited for any more: its time is over
  };
  using Reply = std::function<void(const nlohmann::json& answer)>;

  explicit Requests(Host host) : host_(std::move(host)) {}
  /// `client`: who asks, for drop().
  void add(nlohmann::json request, Reply reply, int client = 0);
  /// That client has gone and takes no answer: only its commands are still executed.
  void drop(int client);
  /// Answers what can be answered now, and leaves the rest for the next call once its time is up. Call once a frame.
  void serve();
  bool waiting() const { return !pending_.empty(); }

 private:
  struct Pending {
    nlohmann::json request;
    Reply reply;
    int client;
    std::chrono::steady_clock::time_point deadline;
    nlohmann::json answer;  // of a command that was executed and whose effect is awaited
  };
  bool serve(Pending& pending);
  /// As it is now. Made once a call of serve(), and again only after a command, however many ask.
  const nlohmann::json& state();

  Host host_;
  std::deque<Pending> pending_;
  std::optional<nlohmann::json> state_;
};

/// Whether every condition of `until` holds of `state`; throws Error for a malformed one.
bool holds(const nlohmann::json& until, const nlohmann::json& state);

}  // namespace kvscope::app
