#include "app/engine_client/event_queue.h"

#include "engine/core/support/error.h"

namespace kvscope::app {

void EventQueue::push(nlohmann::json event, std::size_t bytes) {
  const bool is_full = entries_.size() >= limits_.max_events;
  if (is_full || bytes > limits_.max_bytes - bytes_) {
    throw Error({.code = ExitCode::resource,
                 .file = "engine stream",
                 .found = is_full ? "more than " + std::to_string(limits_.max_events) + " unread events"
                                  : "more than " + std::to_string(limits_.max_bytes) + " unread bytes",
                 .expected = "an engine that is not faster than its reader"});
  }
  bytes_ += bytes;
  entries_.push_back({std::move(event), bytes});
}

void EventQueue::push_last(nlohmann::json event) { entries_.push_back({std::move(event), 0}); }

std::optional<nlohmann::json> EventQueue::pop() {
  if (entries_.empty()) return std::nullopt;
  Entry first = std::move(entries_.front());
  entries_.pop_front();
  bytes_ -= first.bytes;
  return std::move(first.event);
}

std::vector<nlohmann::json> EventQueue::take_all() {
  std::vector<nlohmann::json> events;
  events.reserve(entries_.size());
  for (Entry& entry : entries_) events.push_back(std::move(entry.event));
  entries_.clear();
  bytes_ = 0;
  return events;
}

}  // namespace kvscope::app
