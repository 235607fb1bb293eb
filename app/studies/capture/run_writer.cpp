#include "app/studies/capture/run_writer.h"

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include "engine/core/support/seconds_since.h"

namespace kvscope::app {
namespace {

constexpr std::int64_t kMostBytes = 64 << 20;
constexpr double kLongestWait = 0.5;  // seconds in which runs are gathered for a commit

/// What a run is in memory, about: a lifetime and a score for every token and head, and its contests.
std::int64_t bytes_of(const RunRecord& run) {
  return static_cast<std::int64_t>(run.n_tokens()) * (64 + 8 * run.model.n_layers * run.model.n_kv_heads) +
         static_cast<std::int64_t>(run.contests.size() * sizeof(Contest));
}

}  // namespace

RunWriter::RunWriter(TraceWriter& writer) : writer_(writer), committed_(writer.committed()) {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
  }
}

RunWriter::~RunWriter() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RunWriter::add(RunRecord run) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) {
    writer_.add(run);
    committed_ = writer_.committed();
    return;
  }
  const std::int64_t bytes = bytes_of(run);
  changed_.wait(lock, [&] { return error_ || bytes_ == 0 || bytes_ + bytes <= kMostBytes; });
  throw_error();
  queue_.push_back({bytes, prepare(std::move(run))});
  bytes_ += bytes;
  changed_.notify_all();
}

void RunWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return error_ || !thread_.joinable() || (queue_.empty() && !is_busy_); });
  throw_error();
}

std::future<PreparedRun> RunWriter::prepare(RunRecord run) {
  const auto shared = std::make_shared<RunRecord>(std::move(run));
  const auto make = [shared] { return PreparedRun(std::move(*shared)); };
  try {
    if (queue_.size() < std::max(1u, std::thread::hardware_concurrency() / 2))
      return std::async(std::launch::async, make);
  } catch (const std::system_error&) {  // no thread for it
  }
  return std::async(std::launch::deferred, make);
}

int RunWriter::committed() const {
  const std::scoped_lock lock(mutex_);
  return committed_;
}

void RunWriter::throw_error() const {
  if (error_) std::rethrow_exception(error_);
}

void RunWriter::work() {
  std::unique_lock lock(mutex_);
  while (!error_) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    is_busy_ = true;
    try {
      write_group(lock);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      error_ = std::current_exception();
    }
    is_busy_ = false;
    changed_.notify_all();
  }
}

void RunWriter::write_group(std::unique_lock<std::mutex>& lock) {
  const auto start = std::chrono::steady_clock::now();
  std::int64_t bytes = 0;
  lock.unlock();
  std::exception_ptr error;  // of one run; those before it are committed all the same
  for (bool more = true; more && !error; more = more && bytes < kMostBytes && seconds_since(start) < kLongestWait) {
    lock.lock();
    Waiting waiting = std::move(queue_.front());
    queue_.pop_front();
    more = !queue_.empty();
    lock.unlock();
    bytes += waiting.bytes;
    try {
      writer_.append(waiting.run.get());
    } catch (...) {
      error = std::current_exception();
    }
  }
  writer_.commit();
  lock.lock();
  committed_ = writer_.committed();
  bytes_ -= bytes;
  if (error) std::rethrow_exception(error);
}

}  // namespace kvscope::app
