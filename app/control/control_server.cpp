#include "app/control/control_server.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxLine = 16u << 20;

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw Error({.code = ExitCode::resource, .file = path.string(), .where = what, .found = ::strerror(errno)});
}

}  // namespace

ControlServer::ControlServer(std::filesystem::path path, std::function<void()> wake)
    : path_(std::move(path)), wake_(std::move(wake)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path_.string();
  if (name.size() >= sizeof address.sun_path) {
    throw Error({.code = ExitCode::usage,
                 .file = name,
                 .found = "a path of " + std::to_string(name.size()) + " bytes",
                 .expected = "a socket's path, shorter than 108"});
  }
  std::copy(name.begin(), name.end(), address.sun_path);
  ::unlink(name.c_str());
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener_ < 0) fail(path_, "socket");
  const mode_t old = ::umask(0077);
  const int bound = ::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::umask(old);
  int fds[2];
  if (bound != 0 || ::listen(listener_, 4) != 0 || ::pipe2(fds, O_CLOEXEC) != 0) {
    ::close(listener_);
    fail(path_, "bind");
  }
  stop_read_ = fds[0], stop_write_ = fds[1];
  thread_ = std::thread([this] { serve(); });
}

ControlServer::~ControlServer() {
  ::close(stop_write_);  // poll() of the thread sees the end of the pipe
  thread_.join();
  for (const Connection& connection : connections_) ::close(connection.fd);
  ::close(stop_read_);
  ::close(listener_);
  ::unlink(path_.c_str());
}

std::vector<ControlServer::Line> ControlServer::take_lines() {
  const std::scoped_lock lock(mutex_);
  std::vector<Line> lines(std::make_move_iterator(lines_.begin()), std::make_move_iterator(lines_.end()));
  lines_.clear();
  return lines;
}

void ControlServer::answer(int id, const nlohmann::json& answer) {
  const std::string line = answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const std::scoped_lock lock(mutex_);
  for (const Connection& connection : connections_) {
    if (connection.id != id) continue;
    for (std::size_t sent = 0; sent < line.size();) {
      const ssize_t n = ::send(connection.fd, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
  }
}

void ControlServer::serve() {
  while (true) {
    std::vector<pollfd> fds = {{stop_read_, POLLIN, 0}, {listener_, POLLIN, 0}};
    {
      const std::scoped_lock lock(mutex_);
      for (const Connection& connection : connections_) fds.push_back({connection.fd, POLLIN, 0});
    }
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    if (fds[0].revents) return;
    bool got = false;
    {
      const std::scoped_lock lock(mutex_);
      for (std::size_t i = 2; i < fds.size(); ++i) {
        if (!fds[i].revents) continue;
        const auto it = std::ranges::find(connections_, fds[i].fd, &Connection::fd);
        if (!read_from(*it)) {
          ::close(it->fd);
          connections_.erase(it);
        }
        got = true;
      }
      if (fds[1].revents) {
        const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd >= 0) connections_.push_back({next_id_++, fd, {}});
      }
    }
    if (got) wake_();
  }
}

bool ControlServer::read_from(Connection& connection) {
  char buffer[8192];
  const ssize_t n = ::read(connection.fd, buffer, sizeof buffer);
  if (n <= 0) return n < 0 && errno == EINTR;
  connection.buffer.append(buffer, static_cast<std::size_t>(n));
  for (std::size_t end; (end = connection.buffer.find('\n')) != std::string::npos;) {
    lines_.push_back({connection.id, connection.buffer.substr(0, end)});
    connection.buffer.erase(0, end + 1);
  }
  return connection.buffer.size() <= kMaxLine;
}

}  // namespace kvscope::app
