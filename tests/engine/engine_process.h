#pragma once
// kvscope-engine as a process with a pipe on either side, spoken to in messages.

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/protocol/channel.h"

namespace kvscope::test {

/// Started anew for each test; killed at the end if it still runs. Its greeting has been read.
class EngineProcess {
 public:
  explicit EngineProcess(const std::map<std::string, std::string>& environment = {});
  ~EngineProcess();
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  const nlohmann::json& hello() const { return hello_; }
  void send(const nlohmann::json& message) { channel_->write(message); }
  /// The next message, nullopt if the engine has ended its stream.
  std::optional<nlohmann::json> read() { return channel_->read(); }
  /// Sends, and gives every event up to `done` or `error` (the last element).
  std::vector<nlohmann::json> call(const nlohmann::json& message,
                                   const std::function<void(const nlohmann::json&)>& on_event = {});
  /// Closes its input, as a client that goes away does.
  void close_input();
  /// Waits for the process to end; the status as waitpid gives it.
  int wait();

 private:
  pid_t pid_ = -1;
  int to_engine_ = -1, from_engine_ = -1;
  std::unique_ptr<Channel> channel_;
  nlohmann::json hello_;
};

}  // namespace kvscope::test
