#pragma once
// Slow work on a separate thread, one piece at a time, while its owner goes on.

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/core/support/under_way.h"

namespace kvscope {

template <typename Answer>
class Background {
 public:
  /// `wake` is called from the thread when there is an answer.
  explicit Background(std::function<void()> wake) : wake_(std::move(wake)) {}
  /// Waits for what is under way.
  ~Background() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  bool is_busy() const { return busy_; }
  /// Not while it is busy. `make` must own what it reads; what it throws, take() throws.
  void post(std::function<Answer()> make) {
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    busy_ = true;
    {
      const std::scoped_lock lock(mutex_);
      make_ = std::move(make);
      under_way_.emplace();
    }
    changed_.notify_one();
  }
  /// Returns once nothing is under way: take() has what was made.
  void wait() {
    std::unique_lock lock(mutex_);
    if (busy_) made_.wait(lock, [this] { return done_; });
  }
  /// What was made since; the next may be posted then.
  std::optional<Answer> take() {
    const std::scoped_lock lock(mutex_);
    if (!done_) return std::nullopt;
    busy_ = done_ = false;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return std::exchange(answer_, std::nullopt);
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || make_; });
      if (stop_) return;
      const std::function<Answer()> make = std::exchange(make_, nullptr);
      lock.unlock();
      std::optional<Answer> answer;
      std::exception_ptr error;
      try {
        answer = make();
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      answer_ = std::move(answer), error_ = error;
      done_ = true;
      under_way_.reset();
      made_.notify_one();
      if (wake_) wake_();
    }
  }

  std::function<void()> wake_;
  bool busy_ = false;  // of the asking thread alone
  std::mutex mutex_;
  std::condition_variable changed_, made_;
  std::function<Answer()> make_;
  std::optional<Answer> answer_;
  std::exception_ptr error_;
  std::optional<UnderWay> under_way_;
  bool done_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace kvscope
