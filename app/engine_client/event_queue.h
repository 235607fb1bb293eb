#pragma once
// What an engine has said and nobody has taken yet, within bounds.

#include <cstddef>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace kvscope::app {

/// Of the protocol, a step event of a long prompt is the largest; a window that stands still for a minute is behind by
/// some ten thousand of those of single tokens.
struct EventLimits {
  std::size_t max_events = 1u << 17;
  std::size_t max_bytes = std::size_t{512} << 20;  // of the messages, as they came
};

/// First in, first out. Not safe from several threads.
class EventQueue {
 public:
  explicit EventQueue(const EventLimits& limits = {}) : limits_(limits) {}
  /// Throws Error (resource) if there are too many already: an engine that talks faster than anybody listens.
  void push(nlohmann::json event, std::size_t bytes);
  /// Whatever the limits: the event that says why there will be no other.
  void push_last(nlohmann::json event);
  std::optional<nlohmann::json> pop();
  std::vector<nlohmann::json> take_all();
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    nlohmann::json event;
    std::size_t bytes;
  };
  EventLimits limits_;
  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;
};

}  // namespace kvscope::app
