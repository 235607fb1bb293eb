#include "engine/core/protocol/message_writer.h"

#include <utility>

namespace kvscope {

MessageWriter::MessageWriter(Channel& channel) : channel_(channel), thread_([this] { write_all(); }) {}

MessageWriter::~MessageWriter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MessageWriter::write(nlohmann::json message) { add({.ready = std::move(message), .make = {}}); }

void MessageWriter::add(Message message) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return error_ || waiting_.empty() || bytes_ + message.bytes <= kMostBytes; });
    if (error_) std::rethrow_exception(error_);
    bytes_ += message.bytes;
    waiting_.push_back(std::move(message));
  }
  changed_.notify_all();
}

void MessageWriter::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return error_ || waiting_.empty(); });
  if (error_) std::rethrow_exception(error_);
}

void MessageWriter::write_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty() || error_) return;
    const Message& first = waiting_.front();  // others are added after it
    lock.unlock();
    std::exception_ptr error;
    try {
      first.make ? channel_.write(first.make()) : channel_.write(first.ready);  // which is not copied
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    bytes_ -= first.bytes;
    waiting_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace kvscope
