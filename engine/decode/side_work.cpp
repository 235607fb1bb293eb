#include "engine/decode/side_work.h"

#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "kernels/parallel_for.h"

namespace kvscope::engine {
namespace {

constexpr int kMostThreads = 16;

/// The same one each time: LibTorch keeps freed memory by stream.
c10::Stream stream_of(c10::Device device, int thread) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, c10::Stream> streams;
  const std::scoped_lock lock(mutex);
  const std::pair key(static_cast<int>(device.index()), thread);
  const auto found = streams.find(key);
  if (found != streams.end()) return found->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return streams.emplace(key, guard.getStreamFromGlobalPool(device)).first->second;
}

}  // namespace

int side_threads(c10::Device device) {
  const char* wanted = std::getenv("KVSCOPE_SIDE_THREADS");
  if (!device.is_cuda() || wanted == nullptr) return 0;
  return std::clamp(std::atoi(wanted), 0, kMostThreads);
}

SideWork::SideWork(c10::Device device, int n_threads) : device_(device) {
  for (int i = 0; i < n_threads; ++i) threads_.emplace_back([this, i] { run(i); });
}

SideWork::~SideWork() {
  {
    const std::scoped_lock lock(mutex_);
    stops_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
}

void SideWork::add(Work work) {
  ++n_open_;
  if (threads_.empty()) {
    finished_.push_back(work());
    return collect_finished();
  }
  const std::scoped_lock lock(mutex_);
  waiting_.push_back(std::move(work));
  changed_.notify_all();
}

bool SideWork::collect() {
  if (n_open_ == 0) return false;
  const Then then = next_finished(true);
  --n_open_;
  then();
  collect_finished();
  return true;
}

void SideWork::collect_finished() {
  while (const Then then = next_finished(false)) {
    --n_open_;
    then();
  }
}

SideWork::Then SideWork::next_finished(bool waits) {
  std::unique_lock lock(mutex_);
  if (waits) changed_.wait(lock, [this] { return !finished_.empty(); });
  if (finished_.empty()) return nullptr;
  Then then = std::move(finished_.front());
  finished_.pop_front();
  return then;
}

void SideWork::run(int thread) {
  kernels::compute_alone();
  std::optional<c10::StreamGuard> guard;
  if (device_.is_cuda()) guard.emplace(stream_of(device_, thread));
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stops_ || !waiting_.empty(); });
    if (stops_) return;
    Work work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    Then then;
    try {
      then = work();
      if (guard) guard->current_stream().synchronize();
    } catch (...) {
      then = [error = std::current_exception()] { std::rethrow_exception(error); };
    }
    work = nullptr;  // what it holds goes before its owner hears of its end
    lock.lock();
    finished_.push_back(std::move(then));
    changed_.notify_all();
  }
}

}  // namespace kvscope::engine
