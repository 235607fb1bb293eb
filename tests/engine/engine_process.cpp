#include "tests/engine/engine_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "tests/support/folders.h"

namespace kvscope::test {

EngineProcess::EngineProcess(const std::map<std::string, std::string>& environment) {
  std::signal(SIGPIPE, SIG_IGN);
  int in[2], out[2];
  // Close-on-exec: an engine started later must not hold this one's pipes open.
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  const std::string program = in_build("bin/kvscope-engine");
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execl(program.c_str(), program.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_engine_ = in[1];
  from_engine_ = out[0];
  channel_ = std::make_unique<Channel>(from_engine_, to_engine_);
  hello_ = channel_->read().value();
}

EngineProcess::~EngineProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (to_engine_ >= 0) close(to_engine_);
  close(from_engine_);
}

std::vector<nlohmann::json> EngineProcess::call(const nlohmann::json& message,
                                                const std::function<void(const nlohmann::json&)>& on_event) {
  send(message);
  std::vector<nlohmann::json> events;
  while (std::optional<nlohmann::json> event = read()) {
    events.push_back(std::move(*event));
    if (on_event) on_event(events.back());
    const std::string type = events.back().at("type");
    if (type == "done" || type == "error") break;
  }
  return events;
}

void EngineProcess::close_input() {
  close(to_engine_);
  to_engine_ = -1;
}

int EngineProcess::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

}  // namespace kvscope::test
