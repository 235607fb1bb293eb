#pragma once
// A Unix socket that takes requests (requests.h), one JSON object a line, and answers in the same way.

#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace kvscope::app {

class ControlServer {
 public:
  struct Line {
    int connection;
    std::string text;
  };
  /// Listens at `path`; only this user may connect. `wake` is called from the server's thread. Throws Error.
  ControlServer(std::filesystem::path path, std::function<void()> wake);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// Lines that came since the last call.
  std::vector<Line> take_lines();
  /// Nothing happens if the connection is gone.
  void answer(int connection, const nlohmann::json& answer);

 private:
  struct Connection {
    int id, fd;
    std::string buffer;
  };
  void serve();
  bool read_from(Connection& connection);

  std::filesystem::path path_;
  std::function<void()> wake_;
  int listener_ = -1, stop_read_ = -1, stop_write_ = -1;
  std::mutex mutex_;
  std::vector<Connection> connections_;
  std::deque<Line> lines_;
  int next_id_ = 1;
  std::thread thread_;
};

}  // namespace kvscope::app
