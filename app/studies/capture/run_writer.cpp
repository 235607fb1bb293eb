#include "app/studies/capture/run_writer.h"

#include <system_error>
#include <utility>

namespace kvscope::app {

RunWriter::RunWriter(TraceWriter& writer) : writer_(writer) {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
  }
}

RunWriter::~RunWriter() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();  // what was added is written before it ends
}

void RunWriter::add(RunRecord run) {
  if (!thread_.joinable()) return writer_.add(run);
  wait();
  {
    const std::lock_guard lock(mutex_);
    run_ = std::move(run);
  }
  changed_.notify_all();
}

void RunWriter::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !run_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void RunWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return run_ || ending_; });
    if (!run_) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      writer_.add(*run_);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    run_.reset();
    changed_.notify_all();
  }
}

}  // namespace kvscope::app
