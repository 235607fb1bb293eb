#include "app/engine_client/engine_client.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "app/support/paths.h"
#include "app/support/python.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/support/error.h"
#include "engine/core/support/shell_quote.h"

namespace kvscope::app {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kStderrLines = 40;
constexpr std::string_view kTorchVersion = "2.11";  // which the engine is built against: ./setup's

bool has(const std::string& line, const char* part) { return line.find(part) != std::string::npos; }

constexpr std::string_view kNoAnswer = "no answer";  // begins what a channel reports when its patience is over
constexpr const char* kEnded = "ended";              // the one event that is ours

/// "hf", or "hf --method my.py:mine": the engine in Python over transformers. Its options go through the shell.
std::vector<std::string> python_engine_argv(const std::string& options) {
  std::vector<std::string> argv = {"/bin/sh", "-c", "exec \"$@\"" + options, "sh"};
  for (std::string& word : python_argv("kvscope.engine")) argv.push_back(std::move(word));
  return argv;
}

std::vector<std::string> engine_argv(const std::string& command) {
  if (command == "hf" || command.starts_with("hf ")) return python_engine_argv(command.substr(2));
  if (!command.empty()) return {"/bin/sh", "-c", command};
  // Its libraries cannot be found from there, which they say in words of their own.
  [[maybe_unused]] const auto here = std::filesystem::current_path();
  const std::string engine = executable_folder() / "kvscope-engine";
  // A wheel finds LibTorch beside itself and a build knows where it was; a .deb does neither.
  const char* torch = std::getenv("KVSCOPE_TORCH");
  if (torch == nullptr || *torch == '\0') return {engine};
  std::string path = std::string(torch) + "/lib";
  if (const char* more = std::getenv("LD_LIBRARY_PATH"); more != nullptr && *more != '\0')
    path += ":" + std::string(more);
  return {"/usr/bin/env", "LD_LIBRARY_PATH=" + path, engine};
}

}  // namespace

EngineGreeting EngineGreeting::read(const nlohmann::json& event) {
  if (event.value("type", "") != "hello") {
    throw Error({.code = ExitCode::resource,
                 .file = "engine",
                 .found = "a first message that is not a greeting",
                 .expected = "hello"});
  }
  EngineGreeting greeting{.version = event.value("version", 0),
                          .engine = event.value("engine", "?") + ", torch " + event.value("torch", "?") + ", " +
                                    event.value("device", "?")};
  // What another version means by these fields is not known.
  if (greeting.version == protocol::kVersion) greeting.offer = protocol::offer_of_hello(event);
  if (const std::string other = greeting.offer.recorder(); !other.empty())
    greeting.engine = other + ", " + greeting.engine;
  return greeting;
}

void EngineGreeting::check_version() const {
  if (version == protocol::kVersion) return;
  throw Error({.code = ExitCode::resource,
               .file = "engine",
               .found = "protocol version " + std::to_string(version),
               .expected = "version " + std::to_string(protocol::kVersion),
               .hint = "use the kvscope-engine of the same release"});
}

EngineEnd EngineEnd::read(const nlohmann::json& event) {
  EngineEnd end{.reason = event.value("reason", ""),
                .expected = event.value("expected", false),
                .said = event.value("stderr", std::vector<std::string>())};
  std::erase(end.said, "");
  return end;
}

std::string end_words(const std::string& reason) {
  if (!reason.starts_with(kNoAnswer)) return "stopped: " + reason;
  return "did not answer" + reason.substr(kNoAnswer.size()) + " (KVSCOPE_ENGINE_TIMEOUT=SECONDS waits longer)";
}

std::string EngineEnd::missing_torch() const {
  // The dynamic loader's words: "libtorch_cpu.so: cannot open shared object file", "undefined symbol: _ZN3c10...".
  for (const std::string& line : said) {
    const bool absent = (has(line, "libtorch") || has(line, "libc10")) && has(line, "cannot open shared object");
    if (!absent && !(has(line, "symbol lookup error") && has(line, "undefined symbol"))) continue;
    return std::string(absent ? "LibTorch is missing" : "this LibTorch has the wrong version") +
           ": pip install 'kvscope[engine]', or install torch " + std::string(kTorchVersion) +
           " and set KVSCOPE_TORCH to its folder";
  }
  return "";
}

EngineClient::EngineClient(Options options)
    : options_(std::move(options)),
      child_(ChildProcess::start(engine_argv(options_.command))),
      events_(options_.limits) {
  ::signal(SIGPIPE, SIG_IGN);  // a write to a dead engine is an error to handle, not the end of this process
  channel_ = std::make_unique<Channel>(child_.stdout_fd(), child_.stdin_fd());
  try {
    stderr_reader_ = std::thread([this] { read_stderr(); });
    writer_ = std::thread([this] { write_requests(); });
    // Last: it joins the one of stderr, at once if the engine ends at once.
    reader_ = std::thread([this] { read_events(); });
  } catch (...) {  // no memory for a thread: those that run end with the engine
    child_.signal_group(SIGKILL);
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    requests_changed_.notify_all();
    if (writer_.joinable()) writer_.join();
    if (stderr_reader_.joinable()) stderr_reader_.join();
    throw;
  }
}

EngineClient::~EngineClient() { stop(); }

int EngineClient::next_id() {
  const std::scoped_lock lock(mutex_);
  return next_id_++;
}

void EngineClient::request_with_id(const protocol::Request& request, int id) { send(protocol::to_json(request, id)); }

void EngineClient::send(nlohmann::json message) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    requests_.push_back(std::move(message));
  }
  requests_changed_.notify_one();
}

int EngineClient::request(const protocol::Request& request) {
  const int id = next_id();
  request_with_id(request, id);
  return id;
}

void EngineClient::cancel(int target_id) { request(protocol::CancelRequest{target_id}); }

std::vector<nlohmann::json> EngineClient::take_events() {
  const std::scoped_lock lock(mutex_);
  return events_.take_all();
}

std::optional<nlohmann::json> EngineClient::wait_event(milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!events_changed_.wait_for(lock, timeout, [this] { return !events_.empty(); })) return std::nullopt;
  return events_.pop();
}

bool EngineClient::ended() const {
  const std::scoped_lock lock(mutex_);
  return ended_;
}

template <typename Queue>
void EngineClient::hand_on(nlohmann::json event, const Queue& queue) {
  if (!options_.sink || !options_.sink(event)) {
    const std::scoped_lock lock(mutex_);
    queue(std::move(event));
  }
  events_changed_.notify_all();
  if (options_.wake) options_.wake();
}

void EngineClient::read_events() {
  std::string error;
  try {
    // The first message has a time limit; those after it come when there is something to say, but not by halves.
    Patience patience{.whole = options_.patience, .silence = options_.patience, .writer_ended_fd = child_.ended_fd()};
    while (auto event = channel_->read(patience)) {
      protocol::check_event(*event);
      if (event->value("type", "") == kEnded)
        throw Error({.file = "message ended", .found = "it came from the engine"});
      hand_on(std::move(*event), [&](nlohmann::json&& e) { events_.push(std::move(e), channel_->last_read_bytes()); });
      patience.whole = milliseconds(-1);
    }
  } catch (const Error& e) {
    const std::string& found = e.parts().found;
    error = found.starts_with(kNoAnswer) ? found : e.what();
  } catch (const std::exception& e) {
    error = e.what();
  }
  {
    const std::scoped_lock lock(mutex_);
    reading_ = false;
  }
  const std::string reason = end_reason(error);
  stderr_reader_.join();  // its last words are part of the reason
  nlohmann::json ended = {{"type", kEnded}, {"reason", reason}};
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    ended["expected"] = stopping_;
    ended["stderr"] = stderr_lines_;
  }
  requests_changed_.notify_all();
  hand_on(std::move(ended), [&](nlohmann::json&& e) { events_.push_last(std::move(e)); });
}

// The stream has ended or is torn: find out how the process ended, and make sure that it has.
std::string EngineClient::end_reason(const std::string& read_error) {
  auto status = child_.wait(read_error.empty() ? milliseconds(2000) : milliseconds(50));
  if (!status) {
    child_.signal_group(SIGKILL);
    child_.wait(std::chrono::seconds(5));
    return read_error.empty() ? "it closed its output but did not exit" : read_error;
  }
  return read_error.empty() ? describe_wait_status(*status) : read_error + " (" + describe_wait_status(*status) + ")";
}

void EngineClient::write_requests() {
  std::unique_lock lock(mutex_);
  while (true) {
    requests_changed_.wait(lock, [this] { return !requests_.empty() || stopping_ || ended_; });
    if (ended_ || requests_.empty()) return;
    const nlohmann::json message = std::move(requests_.front());
    requests_.pop_front();
    lock.unlock();
    try {
      channel_->write(message);
    } catch (const std::exception&) {
      return;  // the reader sees the end of the stream and says why
    }
    lock.lock();
  }
}

void EngineClient::read_stderr() {
  std::string line;
  char buffer[4096];
  while (true) {
    // Those that the engine started and left may hold its stderr open: they are not waited for.
    pollfd fds[] = {{child_.stderr_fd(), POLLIN, 0}, {child_.ended_fd(), POLLIN, 0}};
    if (::poll(fds, 2, -1) > 0 && !fds[0].revents) break;
    const ssize_t n = ::read(child_.stderr_fd(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[i] != '\n' && line.size() < 2000) {
        line += buffer[i];
        continue;
      }
      const std::scoped_lock lock(mutex_);
      stderr_lines_.push_back(std::exchange(line, {}));
      if (stderr_lines_.size() > kStderrLines) stderr_lines_.pop_front();
    }
  }
  if (line.empty()) return;
  const std::scoped_lock lock(mutex_);
  stderr_lines_.push_back(line);
}

void EngineClient::ask_to_quit() {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    asked_to_quit_ = std::chrono::steady_clock::now();
    requests_.push_back(protocol::to_json(protocol::QuitRequest{}, next_id_++));
  }
  requests_changed_.notify_all();
}

void EngineClient::stop(milliseconds patience) {
  if (!reader_.joinable()) return;
  ask_to_quit();
  const auto deadline = asked_to_quit_ + patience;
  {
    std::unique_lock lock(mutex_);
    if (!events_changed_.wait_until(lock, deadline, [this] { return ended_; })) {
      if (reading_) child_.signal_group(SIGKILL);
    }
  }
  reader_.join();
  if (writer_.joinable()) writer_.join();
}

}  // namespace kvscope::app
