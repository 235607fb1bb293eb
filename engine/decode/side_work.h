#pragma once
// Work beside a thread's own: on a GPU, host threads that enqueue on streams of their own.

#include <c10/core/Device.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kvscope::engine {

/// A few threads, each with a stream of the device. What a piece of work leaves to do, its owner's thread does in collect().
/// Small prompts need this: their kernels take less time than the host needs to launch them.
class SideWork {
 public:
  using Then = std::function<void()>;
  using Work = std::function<Then()>;

  /// Without threads, work is done within add().
  SideWork(c10::Device device, int n_threads);
  /// Waits for work that has begun; the rest is dropped, and so is what was left to do.
  ~SideWork();
  SideWork(const SideWork&) = delete;
  SideWork& operator=(const SideWork&) = delete;

  /// What the device does for `work` is over before its Then is run. All that `work` reads must be there by now: its stream
  /// does not wait for others.
  void add(Work work);
  /// Runs what finished work left, in the order in which it finished; waits for one if there is none and work is left.
  /// Rethrows what work threw. False if there was nothing.
  bool collect();
  /// The same without waiting.
  void collect_finished();
  int n_threads() const { return static_cast<int>(threads_.size()); }

 private:
  void run(int thread);
  Then next_finished(bool waits);

  c10::Device device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  std::deque<Then> finished_;
  bool stops_ = false;
  int n_open_ = 0;  // the owner's
  std::vector<std::jthread> threads_;
};

/// KVSCOPE_SIDE_THREADS on a GPU; none without it, and none on a CPU, where the cores compute.
int side_threads(c10::Device device);

}  // namespace kvscope::engine
