#include "app/session/remote_traces.h"

#include <utility>

#include "engine/core/support/error.h"

namespace kvscope::app {

RemoteTraces::RemoteTraces(Messages& messages, Revision& revision, std::function<void()> wake)
    : messages_(messages), revision_(revision), wake_(wake), worker_(wake) {}

RemoteTraces::~RemoteTraces() { cancel(); }

void RemoteTraces::cancel() { n_cancelled_ = n_requests_.load(); }

std::optional<RemoteTraces::Copying> RemoteTraces::copying() const {
  const std::scoped_lock lock(mutex_);
  return copying_;
}

bool RemoteTraces::go_on(unsigned request, Copying now) {
  constexpr std::chrono::milliseconds kInterval(200);
  const auto time = std::chrono::steady_clock::now();
  bool is_news = false;
  {
    const std::scoped_lock lock(mutex_);
    is_news = !copying_ || time - shown_ >= kInterval;
    if (is_news) shown_ = time, copying_ = std::move(now);
  }
  if (is_news && wake_) wake_();
  return request > n_cancelled_;
}

void RemoteTraces::copy(const RemoteFile& file, std::function<void(const std::string&)> then) {
  const unsigned request = ++n_requests_;
  const auto end = [this] {
    const std::scoped_lock lock(mutex_);
    copying_.reset();
  };
  worker_.post(
      [this, file, request, end, then = std::move(then)]() -> Worker::Finish {
        std::string path;
        try {
          path = copy_remote(file, [&](std::uint64_t done, std::uint64_t total) {
                   return go_on(request, {file.word, done, total});
                 }).string();
        } catch (const Error& error) {
          if (error.code() != ExitCode::cancelled) throw;
          return [this, end, word = file.word] {
            end();
            messages_.notify("not copied: " + word);
          };
        }
        return [end, path, then] {
          end();
          then(path);
        };
      },
      [this, end](const std::string& text) {
        end();
        messages_.log("error: " + text);
        messages_.add_banner({.kind = Banner::Kind::error, .text = text});
      });
}

void RemoteTraces::poll() {
  for (const auto& finish : worker_.take_finished()) {
    try {
      finish();
    } catch (const Error& error) {
      messages_.add_banner({.kind = Banner::Kind::error, .text = error.what()});
    }
    revision_.rise();
  }
}

}  // namespace kvscope::app
