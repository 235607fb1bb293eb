#pragma once
// Slow work (files, what-if) on a thread of its own; what it found is taken in between two frames.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kvscope::app {

class Worker {
 public:
  /// Runs on the window's thread once the job is done.
  using Finish = std::function<void()>;
  /// Runs on the worker's thread. May throw: post() says where that goes.
  using Job = std::function<Finish()>;

  /// `wake` is called from the worker's thread whenever a job is done.
  explicit Worker(std::function<void()> wake);
  /// Waits for the job under way; those that were not begun are dropped.
  ~Worker();

  /// `failed` runs on the window's thread if the job throws, with the exception's text.
  void post(Job job, std::function<void(const std::string& text)> failed);
  /// Drops what was not begun and posts this: for work of which only the last request matters.
  void post_only(Job job, std::function<void(const std::string& text)> failed);
  /// Finishes of the jobs that are done; the caller runs them. Never waits.
  std::vector<Finish> take_finished();
  bool busy() const;

 private:
  struct Entry {
    Job job;
    std::function<void(const std::string&)> failed;
  };
  void work();

  std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> waiting_;
  std::vector<Finish> finished_;
  bool running_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace kvscope::app
