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
#include <cstdio>
#include <utility>

#include "engine/core/support/error.h"
#include "engine/core/support/file.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMaxRequest = 16u << 20, kMaxUnread = 64u << 20, kMaxConnections = 64;
constexpr int kMaxUnanswered = 64;

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw Error({.code = ExitCode::resource, .file = path.string(), .where = what, .found = ::strerror(errno)});
}

sockaddr_un address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  if (name.size() >= sizeof address.sun_path) {
    throw Error({.code = ExitCode::usage,
                 .file = name,
                 .found = "a path of " + std::to_string(name.size()) + " bytes",
                 .expected = "a socket's path, shorter than 108"});
  }
  std::copy(name.begin(), name.end(), address.sun_path);
  return address;
}

FileHandle new_socket(const std::filesystem::path& path) {
  FileHandle socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) fail(path, "socket");
  return socket;
}

// What a program left behind that was killed. Whether somebody listens, only asking tells.
void remove_dead_socket(const std::filesystem::path& path, const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (!S_ISSOCK(status.st_mode)) {
    throw Error(
        {.file = path.string(), .found = "it exists and is not a socket", .expected = "a new name for a socket"});
  }
  const FileHandle probe = new_socket(path);
  const int connected = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (connected == 0 || errno != ECONNREFUSED) {
    throw Error(
        {.code = ExitCode::resource,
         .file = path.string(),
         .found = connected == 0 || errno == EAGAIN ? "another program is already listening there" : ::strerror(errno),
         .expected = "a free socket"});
  }
  ::unlink(path.c_str());
}

bool is_of_this_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == ::geteuid() || peer.uid == 0);
}

}  // namespace

ControlServer::ControlServer(std::filesystem::path path, std::function<void()> wake)
    : path_(std::move(path)), wake_(std::move(wake)) {
  const sockaddr_un address = address_of(path_);
  remove_dead_socket(path_, address);
  FileHandle listener = new_socket(path_);
  const mode_t old = ::umask(0177);
  const int bound = ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::umask(old);
  if (bound != 0) fail(path_, "bind");
  struct stat status {};
  int fds[2];
  if (::lstat(path_.c_str(), &status) != 0 || ::listen(listener.get(), 4) != 0 ||
      ::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
    fail(path_, "listen");
  }
  device_ = status.st_dev, inode_ = status.st_ino;
  listener_ = listener.release();
  wake_read_ = fds[0], wake_write_ = fds[1];
  thread_ = std::thread([this] { serve(); });
}

ControlServer::~ControlServer() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  wake_server();
  thread_.join();
  for (const Connection& connection : connections_) ::close(connection.fd);
  for (const int fd : {wake_read_, wake_write_, listener_}) ::close(fd);
  struct stat status {};
  if (::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_)
    ::unlink(path_.c_str());
}

void ControlServer::wake_server() {
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = ::write(wake_write_, &byte, 1);  // a full pipe wakes it as well
}

std::vector<ControlServer::Line> ControlServer::take_lines() {
  const std::scoped_lock lock(mutex_);
  std::vector<Line> lines(std::make_move_iterator(lines_.begin()), std::make_move_iterator(lines_.end()));
  lines_.clear();
  return lines;
}

std::vector<int> ControlServer::take_gone() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(gone_, {});
}

void ControlServer::answer(int id, const nlohmann::json& answer) {
  const std::string line = answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  {
    const std::scoped_lock lock(mutex_);
    const auto connection = std::ranges::find(connections_, id, &Connection::id);
    if (connection == connections_.end()) return;
    connection->out += line;
    --connection->unanswered;
  }
  wake_server();
}

void ControlServer::serve() {
  while (true) {
    std::vector<pollfd> fds = {{wake_read_, POLLIN, 0}, {listener_, POLLIN, 0}};
    {
      const std::scoped_lock lock(mutex_);
      if (stop_) {
        for (Connection& connection : connections_) send_to(connection);  // what fits: the answer to "quit" should
        return;
      }
      for (const Connection& connection : connections_) {
        const bool behind = !connection.out.empty() || connection.unanswered >= kMaxUnanswered;
        const short wanted = static_cast<short>((behind ? 0 : POLLIN) | (connection.out.empty() ? 0 : POLLOUT));
        fds.push_back({connection.fd, wanted, 0});
      }
    }
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    char bytes[64];
    while (::read(wake_read_, bytes, sizeof bytes) > 0) {
    }
    bool got = false;
    {
      const std::scoped_lock lock(mutex_);
      const std::size_t before = lines_.size();
      for (std::size_t i = 2; i < fds.size(); ++i) {
        const auto it = std::ranges::find(connections_, fds[i].fd, &Connection::fd);
        if (serve(*it, fds[i].revents)) continue;
        ::close(it->fd);
        gone_.push_back(it->id);
        connections_.erase(it);
      }
      if (fds[1].revents) accept_one();
      got = lines_.size() > before;
    }
    if (got) wake_();
  }
}

void ControlServer::accept_one() {
  const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  if (connections_.size() < kMaxConnections && is_of_this_user(fd)) {
    connections_.push_back({.id = next_id_++, .fd = fd, .in = {}, .out = {}});
  } else {
    ::close(fd);
  }
}

bool ControlServer::serve(Connection& connection, short events) {
  if (!connection.out.empty() && !send_to(connection)) return false;
  if (events & POLLIN) return read_from(connection);
  return !(events & (POLLHUP | POLLERR | POLLNVAL));
}

bool ControlServer::send_to(Connection& connection) {
  std::size_t sent = 0;
  while (sent < connection.out.size()) {
    const ssize_t n =
        ::send(connection.fd, connection.out.data() + sent, connection.out.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
    if (n < 0) break;
    sent += static_cast<std::size_t>(n);
  }
  connection.out.erase(0, sent);
  if (connection.out.size() <= kMaxUnread) return true;
  std::fprintf(stderr, "control: closed a client that left %zu bytes of answers unread\n", connection.out.size());
  return false;
}

bool ControlServer::read_from(Connection& connection) {
  char buffer[8192];
  const ssize_t n = ::read(connection.fd, buffer, sizeof buffer);
  if (n <= 0) return n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK);
  const std::size_t before = connection.in.size();
  connection.in.append(buffer, static_cast<std::size_t>(n));
  std::size_t begin = 0;
  for (std::size_t end; (end = connection.in.find('\n', std::max(begin, before))) != std::string::npos;
       begin = end + 1) {
    lines_.push_back({connection.id, connection.in.substr(begin, end - begin)});
    ++connection.unanswered;
  }
  connection.in.erase(0, begin);
  if (connection.in.size() <= kMaxRequest) return true;
  std::fprintf(stderr, "control: closed a client that sent a line of more than %zu bytes\n", kMaxRequest);
  return false;
}

}  // namespace kvscope::app
