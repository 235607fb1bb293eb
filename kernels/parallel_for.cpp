#include "kernels/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvscope::kernels {
namespace {

constexpr std::int64_t kCostOfSharing =
    20'000;  // operations, about 2 us: a job reaches a thread that is looking for one
constexpr std::int64_t kCostOfWaking = 200'000;  // about 20 us: it has to be woken
// A decode step is some forty jobs with a few microseconds between them: a worker looks on for so long before it
// sleeps.
constexpr std::chrono::microseconds kLookOn{50};

thread_local bool t_inside_body = false, t_is_alone = false;

/// Memory that threads without work fetch: whoever takes a piece moves the begin on.
struct Ahead {
  static constexpr std::int64_t kPiece = 1024;
  std::atomic<const char*> begin = nullptr;
  std::atomic<std::int64_t> left = 0;

  /// A piece, if there is one. What is asked for may belong to nobody any more: a prefetch cannot fault.
  void fetch() {
    if (left.load(std::memory_order_relaxed) <= 0) return;
    const std::int64_t rest = left.fetch_sub(kPiece, std::memory_order_relaxed);
    if (rest <= 0) return;
    const char* from = begin.load(std::memory_order_relaxed) - rest;
    for (std::int64_t i = 0; i < kPiece; i += 64) __builtin_prefetch(from + i, 0, 2);
  }
};
Ahead ahead;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// Waits until done() or for kLookOn; returns done(). The clock is read rarely: it costs more than a look.
template <typename Done>
bool look_on(const Done& done) {
  const auto end = std::chrono::steady_clock::now() + kLookOn;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      ahead.fetch();
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

/// Workers that run one job at a time together with the caller. Whoever is free takes the next item, and the caller
/// waits for items, never for workers: one that the system has put aside (or that still sleeps) holds nothing up.
class Pool {
 public:
  explicit Pool(unsigned n_workers) {
    for (unsigned i = 0; i < n_workers; ++i) workers_.emplace_back([this] { work(); });
  }
  ~Pool() {
    stopping_ = true;
    ++call_;
    call_.notify_all();
  }

  /// True if some worker would see a job without being woken.
  bool is_looking() const { return n_asleep_.load(std::memory_order_relaxed) < static_cast<int>(workers_.size()); }

  /// `wakes`: also those that sleep; otherwise only those that are looking take part.
  void run(std::int64_t n, const std::function<void(std::int64_t)>& body, bool wakes) {
    const std::lock_guard turn(turn_);
    body_ = &body;
    n_ = n;
    n_unfinished_.store(n, std::memory_order_relaxed);
    n_unclaimed_.store(n);  // publishes what stands above
    ++call_;
    // Either the worker that falls asleep sees the new call, or its falling asleep is seen here: both are sequentially
    // consistent.
    if (wakes && n_asleep_.load() > 0) wake(n - 1);
    take_items();
    const auto is_done = [this] { return n_unfinished_.load(std::memory_order_acquire) == 0; };
    if (look_on(is_done)) return;
    for (std::int64_t left = n_unfinished_; left != 0; left = n_unfinished_) n_unfinished_.wait(left);
  }

 private:
  /// No more than there is work for: one that finds none looks on for kLookOn.
  void wake(std::int64_t n) {
    if (n >= static_cast<std::int64_t>(workers_.size())) return call_.notify_all();
    for (; n > 0; --n) call_.notify_one();
  }

  void take_items() {
    std::int64_t n_taken = 0;
    t_inside_body = true;
    for (std::int64_t left = n_unclaimed_; left > 0;) {
      if (!n_unclaimed_.compare_exchange_weak(left, left - 1)) continue;
      // While an item is claimed and not reported, the job cannot end: body_ and n_ are those that belong to it.
      (*body_)(n_ - left);
      ++n_taken;
      left = n_unclaimed_;
    }
    t_inside_body = false;
    if (n_taken > 0 && n_unfinished_.fetch_sub(n_taken) == n_taken) n_unfinished_.notify_all();
  }

  void work() {
    while (!stopping_) {
      take_items();
      if (look_on([this] { return n_unclaimed_.load(std::memory_order_relaxed) > 0 || stopping_; })) continue;
      const std::uint32_t call = call_;
      ++n_asleep_;
      if (n_unclaimed_ == 0 && !stopping_) call_.wait(call);
      --n_asleep_;
    }
  }

  std::mutex turn_;  // held by the caller whose job runs
  const std::function<void(std::int64_t)>* body_ = nullptr;
  std::int64_t n_ = 0;
  alignas(64) std::atomic<std::int64_t> n_unclaimed_ = 0;  // items that nobody has begun
  alignas(64) std::atomic<std::int64_t> n_unfinished_ = 0;
  alignas(64) std::atomic<std::uint32_t> call_ = 0;  // changes with every job: what sleepers wait for
  std::atomic<int> n_asleep_ = 0;
  std::atomic<bool> stopping_ = false;
  std::vector<std::jthread> workers_;  // last: joined before the rest goes
};

}  // namespace

void fetch_when_idle(const void* begin, std::int64_t bytes) {
  ahead.left.store(0, std::memory_order_relaxed);
  ahead.begin.store(static_cast<const char*>(begin) + bytes, std::memory_order_relaxed);
  ahead.left.store(bytes, std::memory_order_relaxed);
}

int thread_limit(const char* wanted, int cores) {
  const long n = wanted == nullptr ? 0 : std::strtol(wanted, nullptr, 10);
  return n > 0 ? static_cast<int>(std::min<long>(n, cores)) : cores;
}

int thread_count() {
  static const int count = [] {
    const char* own = std::getenv("KVSCOPE_THREADS");
    return thread_limit(own != nullptr ? own : std::getenv("OMP_NUM_THREADS"),
                        static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  }();
  return count;
}

void compute_alone() { t_is_alone = true; }

void parallel_for(std::int64_t n, std::int64_t cost, const std::function<void(std::int64_t)>& body) {
  const int n_threads = thread_count();
  const auto run_alone = [&] {
    for (std::int64_t i = 0; i < n; ++i) body(i);
  };
  if (n <= 1 || n_threads == 1 || t_inside_body || t_is_alone || n * cost < kCostOfSharing) return run_alone();
  static Pool pool(n_threads - 1);
  const bool wakes = n * cost >= kCostOfWaking;
  if (!wakes && !pool.is_looking()) return run_alone();
  pool.run(n, body, wakes);
}

}  // namespace kvscope::kernels
