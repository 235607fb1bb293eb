#pragma once
// A Unix socket that takes requests (requests.h), one JSON object a line, and answers in the same way.

#include <sys/types.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace kvscope::app {

/// What a client does badly costs itself only: one that does not read its answers, or asks for more than waits
/// unanswered, is not read from until it does; one that leaves too much unread, or sends a line without end, is dropped
/// with a line on stderr.
class ControlServer {
 public:
  struct Line {
    int connection;
    std::string text;
  };
  /// Listens at `path`; only this user may connect. A socket on which nobody listens any more is replaced; anything else
  /// that is there stays, and is an Error. `wake` is called from the server's thread.
  ControlServer(std::filesystem::path path, std::function<void()> wake);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// Lines that came since the last call. Each is to be answered once.
  std::vector<Line> take_lines();
  /// Connections that ended since the last call. Their last lines are there already: ask for these first, then for lines.
  std::vector<int> take_gone();
  /// Never waits for the client. Nothing happens if the connection is gone.
  void answer(int connection, const nlohmann::json& answer);

 private:
  struct Connection {
    int id, fd;
    std::string in;      // of a line that is not whole
    std::string out;     // of answers that the client has not taken
    int unanswered = 0;  // lines
  };
  void serve();
  void accept_one();
  /// All with mutex_ held. False: the connection is over.
  bool serve(Connection& connection, short events);
  bool read_from(Connection& connection);
  bool send_to(Connection& connection);
  void wake_server();

  std::filesystem::path path_;
  std::function<void()> wake_;
  int listener_ = -1, wake_read_ = -1, wake_write_ = -1;
  dev_t device_ = 0;  // with inode_: the socket that this made, and may remove
  ino_t inode_ = 0;
  std::mutex mutex_;
  bool stop_ = false;
  std::vector<Connection> connections_;
  std::deque<Line> lines_;
  std::vector<int> gone_;
  int next_id_ = 1;
  std::thread thread_;
};

}  // namespace kvscope::app
