#include "app/window/film.h"

#include <utility>

#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMostWaiting = 3;  // pictures of several megabytes

std::unique_ptr<Film::Encoder> encoder_for(const std::filesystem::path& path, int ms) {
  if (path.extension() == ".gif") return gif_encoder(path, ms);
  if (path.extension() == ".mp4") return ffmpeg_encoder(path, ms);
  throw Error({.code = ExitCode::usage,
               .file = path.string(),
               .found = "the ending \"" + path.extension().string() + "\"",
               .expected = ".gif or .mp4"});
}

}  // namespace

Film::Film(const std::filesystem::path& path, int ms)
    : encoder_(encoder_for(path, ms)), thread_([this] { encode_all(); }) {}

Film::~Film() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Film::is_ready() const {
  const std::lock_guard lock(mutex_);
  return error_ || waiting_.size() < kMostWaiting;
}

void Film::add(Picture picture) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return error_ || waiting_.size() < kMostWaiting; });
    if (error_) std::rethrow_exception(error_);
    waiting_.push_back(std::move(picture));
  }
  changed_.notify_all();
}

void Film::finish() {
  {
    const std::lock_guard lock(mutex_);
    finishes_ = true;
  }
  changed_.notify_all();
}

bool Film::is_finished() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return finished_;
}

void Film::encode_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || finishes_ || !waiting_.empty(); });
    if (ends_) return;
    const bool is_last = waiting_.empty();
    Picture picture;
    if (!is_last) picture = std::move(waiting_.front()), waiting_.pop_front();
    lock.unlock();
    changed_.notify_all();
    std::exception_ptr error;
    try {
      is_last ? encoder_->finish() : encoder_->add(picture);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    finished_ = is_last && !error;
    if (is_last || error) {
      changed_.notify_all();
      return;
    }
  }
}

}  // namespace kvscope::app
