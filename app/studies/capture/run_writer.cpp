#include "app/studies/capture/run_writer.h"

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include "engine/core/support/seconds_since.h"

namespace kvscope::app {
namespace {

constexpr std::int64_t kMostWaiting = 512 << 20;  // bytes; a run of 2,304 tokens of Qwen3-8B has 27 MB
constexpr std::int64_t kMostPerCommit = 64 << 20;
constexpr double kLongestWait = 0.5;  // seconds in which runs are gathered for a commit

/// What a run is in memory, about: a lifetime and a score for every token and head, and its contests.
std::int64_t bytes_of(const RunRecord& run) {
  return static_cast<std::int64_t>(run.n_tokens()) * (64 + 8 * run.model.n_layers * run.model.n_kv_heads) +
         static_cast<std::int64_t>(run.contests.size() * sizeof(Contest));
}

}  // namespace

RunWriter::RunWriter(TraceWriter& writer) : writer_(writer), place_(writer.place()), committed_(writer.committed()) {
  try {
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency() / 2); ++i)
      preparers_.emplace_back([this] { prepare_all(); });
    thread_ = std::thread([this] { write_all(); });
  } catch (const std::system_error&) {  // those that are there do it all
  }
}

RunWriter::~RunWriter() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& preparer : preparers_) preparer.join();
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
  changed_.wait(lock, [&] { return error_ || bytes_ == 0 || bytes_ + bytes <= kMostWaiting; });
  throw_error();
  const trace::RunPlace place = place_;
  place_.pass(run);
  queue_.push_back(std::make_shared<Waiting>(bytes, std::move(run), place));
  bytes_ += bytes;
  changed_.notify_all();
}

void RunWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return error_ || !thread_.joinable() || (queue_.empty() && !is_busy_); });
  throw_error();
}

std::shared_ptr<RunWriter::Waiting> RunWriter::unprepared() const {
  const auto found = std::ranges::find(queue_, false, &Waiting::is_taken);
  return found == queue_.end() ? nullptr : *found;
}

void RunWriter::prepare_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || error_ || unprepared(); });
    const std::shared_ptr<Waiting> waiting = error_ ? nullptr : unprepared();
    if (!waiting) return;
    prepare(*waiting, lock);
  }
}

void RunWriter::prepare(Waiting& waiting, std::unique_lock<std::mutex>& lock) {
  waiting.is_taken = true;
  lock.unlock();
  std::unique_ptr<PreparedRun> ready;
  std::exception_ptr error;
  try {
    ready = std::make_unique<PreparedRun>(std::move(*waiting.run), waiting.place);
  } catch (...) {
    error = std::current_exception();
  }
  waiting.run.reset();
  lock.lock();
  waiting.ready = std::move(ready);
  waiting.error = error;
  changed_.notify_all();
}

int RunWriter::committed() const {
  const std::scoped_lock lock(mutex_);
  return committed_;
}

void RunWriter::throw_error() const {
  if (error_) std::rethrow_exception(error_);
}

void RunWriter::write_all() {
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

std::shared_ptr<RunWriter::Waiting> RunWriter::next_ready(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Waiting> first = queue_.front();
  if (preparers_.empty()) prepare(*first, lock);
  changed_.wait(lock, [&] { return first->is_ready(); });
  queue_.pop_front();
  return first;
}

void RunWriter::write_group(std::unique_lock<std::mutex>& lock) {
  const auto start = std::chrono::steady_clock::now();
  std::int64_t bytes = 0;
  lock.unlock();
  std::exception_ptr error;  // of one run; those before it are committed all the same
  for (bool more = true; more && !error; more = more && bytes < kMostPerCommit && seconds_since(start) < kLongestWait) {
    lock.lock();
    const std::shared_ptr<Waiting> waiting = next_ready(lock);
    more = !queue_.empty();
    lock.unlock();
    bytes += waiting->bytes;
    error = waiting->error;
    try {
      if (!error) writer_.append(*waiting->ready);
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
