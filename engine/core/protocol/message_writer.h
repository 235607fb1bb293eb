#pragma once
// Messages to a channel by way of a thread.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/events.h"

namespace kvscope {

/// Writes messages in the order in which they are given, on a separate thread. A prompt of 2,048 tokens of Qwen3-8B's shape
/// has 33 MB of facts: to encode and write them takes as long as a third of the run. Any thread may write.
class MessageWriter {
 public:
  /// More waits until some of it has been written: a client that reads slowly slows the runs, and no memory fills.
  static constexpr std::size_t kMostBytes = 256u << 20;

  explicit MessageWriter(Channel& channel);
  /// Writes what is left, unless writing has failed.
  ~MessageWriter();

  /// Throws what writing an earlier message threw; then none is written any more.
  void write(nlohmann::json message);
  /// Facts of run `id`, which the thread encodes. Throws Error (resource) also if a channel refuses so many bytes.
  template <typename Facts>
  void write_facts(Facts facts, int id) {
    const std::size_t bytes = protocol::bulk_bytes(facts);
    Channel::check_length(bytes);
    add({.ready = {},
         .make = [facts = std::move(facts), id]() mutable { return protocol::to_json(std::move(facts), id); },
         .bytes = bytes});
  }
  /// Waits until all is written. Throws as write() does.
  void flush();

 private:
  struct Message {
    nlohmann::json ready;
    std::function<nlohmann::json()> make;  // if given
    std::size_t bytes = 0;
  };
  void add(Message message);
  void write_all();

  Channel& channel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> waiting_;  // the first is being written
  std::size_t bytes_ = 0;        // of those
  bool ends_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace kvscope
