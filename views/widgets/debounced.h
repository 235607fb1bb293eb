#pragma once
// Something slow about the selection, computed on a separate thread once the selection has stayed for a moment.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/core/support/under_way.h"

namespace kvscope::views {

/// Key is a struct with operator==. The last question counts; what was begun is finished and thrown away.
template <typename Key, typename Answer>
class Debounced {
 public:
  /// `wake` is called from the thread when there is an answer.
  explicit Debounced(std::function<void()> wake) : wake_(std::move(wake)), thread_([this] { work(); }) {}
  ~Debounced() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Debounced(const Debounced&) = delete;
  Debounced& operator=(const Debounced&) = delete;

  /// The answer for this key; nothing while it is not known. `make` must own what it reads.
  std::optional<Answer> of(const Key& key, std::function<Answer()> make) {
    const std::scoped_lock lock(mutex_);
    if (key_ && *key_ == key) return answer_;
    key_ = key;
    answer_.reset();
    make_ = std::move(make);
    under_way_.emplace();
    changed_.notify_one();
    return std::nullopt;
  }

 private:
  static constexpr std::chrono::milliseconds kStay{150};

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || make_; });
      if (stop_) return;
      const Key key = *key_;
      if (changed_.wait_for(lock, kStay, [&] { return stop_ || !(*key_ == key); })) continue;
      const std::function<Answer()> make = std::exchange(make_, nullptr);
      lock.unlock();
      Answer answer = make();
      lock.lock();
      if (!(*key_ == key)) continue;
      answer_ = std::move(answer);
      under_way_.reset();
      if (wake_) wake_();
    }
  }

  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Key> key_;
  std::optional<Answer> answer_;
  std::function<Answer()> make_;
  std::optional<UnderWay> under_way_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace kvscope::views
