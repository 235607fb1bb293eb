#include "kernels/cpu/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace kvscope::kernels::cpu {
namespace {

constexpr std::int64_t kCostOfWaking = 200'000;  // operations, about 20 us

thread_local bool t_inside_body = false;

/// Sleeping workers that run one job at a time together with the caller.
class Pool {
 public:
  explicit Pool(unsigned n_workers) {
    for (unsigned i = 0; i < n_workers; ++i) {
      workers_.emplace_back([this](std::stop_token stop) { work(stop); });
    }
  }

  void run(std::int64_t n, const std::function<void(std::int64_t)>& body) {
    const std::lock_guard turn(turn_);
    {
      const std::lock_guard lock(mutex_);
      body_ = &body;
      n_ = n;
      next_.store(0, std::memory_order_relaxed);
      busy_ = static_cast<int>(workers_.size());
      ++job_;
    }
    wake_.notify_all();
    take_items(body, n);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void take_items(const std::function<void(std::int64_t)>& body, std::int64_t n) {
    t_inside_body = true;
    for (std::int64_t i = next_.fetch_add(1); i < n; i = next_.fetch_add(1)) body(i);
    t_inside_body = false;
  }

  void work(std::stop_token stop) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (wake_.wait(lock, stop, [&] { return job_ != seen; })) {
      seen = job_;
      const auto* body = body_;
      const std::int64_t n = n_;
      lock.unlock();
      take_items(*body, n);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex turn_;  // held by the caller whose job runs
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::condition_variable done_;
  const std::function<void(std::int64_t)>* body_ = nullptr;
  std::int64_t n_ = 0;
  std::uint64_t job_ = 0;
  int busy_ = 0;  // workers that have not finished the job; every worker takes part in every job
  std::atomic<std::int64_t> next_ = 0;
  std::vector<std::jthread> workers_;  // last: stopped and joined before the rest goes
};

}  // namespace

void parallel_for(std::int64_t n, std::int64_t cost, const std::function<void(std::int64_t)>& body) {
  static const unsigned n_threads = std::max(1u, std::thread::hardware_concurrency());
  if (n <= 1 || n_threads == 1 || t_inside_body || n * cost < kCostOfWaking) {
    for (std::int64_t i = 0; i < n; ++i) body(i);
    return;
  }
  static Pool pool(n_threads - 1);
  pool.run(n, body);
}

}  // namespace kvscope::kernels::cpu
