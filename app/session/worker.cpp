#include "app/session/worker.h"

#include <exception>
#include <string>
#include <utility>

#include "engine/core/support/std_failure.h"

namespace kvscope::app {

Worker::Worker(std::function<void()> wake) : wake_(std::move(wake)), thread_([this] { work(); }) {}

Worker::~Worker() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::post(Job job, std::function<void(const std::string&)> failed) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back({std::move(job), std::move(failed)});
  }
  changed_.notify_one();
}

void Worker::post_only(Job job, std::function<void(const std::string&)> failed) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.clear();
  }
  post(std::move(job), std::move(failed));
}

std::vector<Worker::Finish> Worker::take_finished() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(finished_, {});
}

bool Worker::busy() const {
  const std::scoped_lock lock(mutex_);
  return running_ || !waiting_.empty() || !finished_.empty();
}

void Worker::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    Entry entry = std::move(waiting_.front());
    waiting_.pop_front();
    running_ = true;
    lock.unlock();
    Finish finish;
    try {
      finish = entry.job();
    } catch (const std::exception& error) {
      finish = [failed = entry.failed, text = std::string(error_of(error).what())] { failed(text); };
    }
    lock.lock();
    running_ = false;
    if (finish) finished_.push_back(std::move(finish));
    lock.unlock();
    if (wake_) wake_();
    lock.lock();
  }
}

}  // namespace kvscope::app
