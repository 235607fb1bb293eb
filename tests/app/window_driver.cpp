#include "tests/app/window_driver.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/support/skip.h"
#include "tests/support/slowdown.h"

namespace kvscope::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;

fs::path find_program(const std::string& name) {
  std::istringstream folders(std::getenv("PATH") ? std::getenv("PATH") : "/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((fs::path(folder) / name).c_str(), X_OK) == 0) return fs::path(folder) / name;
  }
  return {};
}

// What the child has written to a pipe within `timeout`, up to a line's end.
std::string first_line(int fd, double timeout) {
  std::string line;
  const auto deadline = std::chrono::steady_clock::now() + milliseconds(static_cast<long>(timeout * 1000));
  while (std::chrono::steady_clock::now() < deadline && line.find('\n') == std::string::npos) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, 50) <= 0) continue;
    char c;
    if (::read(fd, &c, 1) <= 0) break;
    line += c;
  }
  return line;
}

}  // namespace

bool skip_without_display() {
  for (const char* program : {"Xvfb", "xdotool"}) {
    if (!find_program(program).empty()) continue;
    skip((std::string(program) + " is not installed").c_str());
    return true;
  }
  return false;
}

std::string fake(const std::string& options) { return "exec " + fake_engine().string() + " " + options; }

Xvfb::Xvfb(int width, int height) {
  // Xvfb chooses a free display and tells it: no guessing of numbers, no race for a socket.
  const std::string screen = std::to_string(width) + "x" + std::to_string(height) + "x24";
  process_ = std::make_unique<ChildProcess>(ChildProcess::start(
      {find_program("Xvfb").string(), "-displayfd", "1", "-screen", "0", screen, "-nolisten", "tcp", "-noreset"}));
  const std::string number = first_line(process_->stdout_fd(), 20 * kSlowdown);
  if (number.size() < 2) throw std::runtime_error("Xvfb did not start");
  display_ = ":" + number.substr(0, number.size() - 1);
}

WindowDriver::WindowDriver(const Xvfb& display, const Options& options) : display_(display.display()) {
  const fs::path socket_path = folder_ / "control";
  const fs::path state = options.state.empty() ? folder_.path() : options.state;
  std::vector<std::string> argv = {
      "/usr/bin/env", "-C", folder_.path().string(), "-u", "WAYLAND_DISPLAY", "DISPLAY=" + display_,
      "LIBGL_ALWAYS_SOFTWARE=1", "LP_NUM_THREADS=0", "KVSCOPE_NO_PIXELS=1", "HOME=" + folder_.path().string(),
      "XDG_STATE_HOME=" + state.string(), "XDG_CONFIG_HOME=" + (state / "config").string(),
      // A machine on which set-up has fetched no model: the tiny sample opens.
      "XDG_CACHE_HOME=" + (options.cache.empty() ? folder_.path() / "cache" : options.cache).string(),
      kvscope().string(), "--control", socket_path.string()};
  if (!options.first_run) argv.emplace_back("--empty");
  if (!options.engine.empty()) argv.insert(argv.end(), {"--engine", options.engine});
  argv.insert(argv.end(), options.words.begin(), options.words.end());
  process_ = std::make_unique<ChildProcess>(ChildProcess::start(argv));

  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = socket_path.string();
  std::copy(name.begin(), name.end(), address.sun_path);
  socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  for (int i = 0; ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0; ++i) {
    if (i > 4000 || process_->wait(milliseconds(0))) {
      throw std::runtime_error("the window did not start: " + first_line(process_->stderr_fd(), 1));
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  wait({{"/frame", {{"at_least", 3}}}});
}

WindowDriver::~WindowDriver() {
  if (socket_ >= 0) ::close(socket_);
}

std::string WindowDriver::read_line(double timeout) {
  timeout *= kSlowdown;
  const auto deadline = std::chrono::steady_clock::now() + milliseconds(static_cast<long>(timeout * 1000));
  std::size_t end;
  while ((end = buffer_.find('\n')) == std::string::npos) {
    pollfd p{socket_, POLLIN, 0};
    if (::poll(&p, 1, 50) <= 0) {
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("the window does not answer");
      continue;
    }
    char bytes[65536];
    const ssize_t n = ::read(socket_, bytes, sizeof bytes);
    if (n <= 0) throw std::runtime_error("the window closed its control socket");
    buffer_.append(bytes, static_cast<std::size_t>(n));
  }
  const std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

json WindowDriver::request(const json& request) {
  const std::string line = request.dump() + "\n";
  if (::send(socket_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("the window closed its control socket");
  }
  json answer = json::parse(read_line(40));
  if (!answer.value("ok", false)) throw std::runtime_error(request.dump() + ": " + answer.dump());
  return answer;
}

json WindowDriver::command(const std::string& id, const json& args) {
  return request({{"command", id}, {"args", args}})["result"];
}
json WindowDriver::state() { return request({{"query", "state"}})["state"]; }

void WindowDriver::wait(const json& until, double timeout) {
  try {
    request({{"query", "wait"}, {"until", until}, {"timeout", timeout}});
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string(error.what()) + "; state: " + state().dump());
  }
}

void WindowDriver::frames(int n) { wait({{"/frame", {{"at_least", state()["frame"].get<int>() + n}}}}); }

std::string WindowDriver::text(const std::string& item) {
  const json text = request({{"query", "text"}, {"id", item}})["text"];
  return text.is_null() ? std::string() : text.get<std::string>();
}

std::string WindowDriver::text_soon(const std::string& item, const std::string& part) {
  for (int i = 0; i < 200 && text(item).find(part) == std::string::npos; ++i) frames(1);
  return text(item);
}

std::vector<double> WindowDriver::rect(const std::string& item) {
  for (int i = 0; i < 60; ++i) {
    const json rect = request({{"query", "item"}, {"id", item}})["rect"];
    if (!rect.is_null()) return rect.get<std::vector<double>>();
    frames(1);
  }
  throw std::runtime_error("no item " + item + " on the screen; there are " +
                           request({{"query", "items"}})["items"].dump());
}

void WindowDriver::xdotool(const std::vector<std::string>& words) {
  if (window_id_.empty()) {
    const auto found = run({.argv = {find_program("xdotool").string(), "search", "--sync", "--class", "kvscope"},
                            .environment = {{"DISPLAY", display_}}});
    window_id_ = found.out.substr(0, found.out.find('\n'));
    run({.argv = {find_program("xdotool").string(), "windowfocus", "--sync", window_id_},
         .environment = {{"DISPLAY", display_}}});
  }
  std::vector<std::string> argv = {find_program("xdotool").string()};
  argv.insert(argv.end(), words.begin(), words.end());
  const auto result = run({.argv = argv, .environment = {{"DISPLAY", display_}}});
  if (result.exit_code != 0) throw std::runtime_error("xdotool: " + result.err);
}

void WindowDriver::click(const std::string& item) {
  const auto r = rect(item);
  const std::string x = std::to_string(static_cast<int>(r[0] + r[2] / 2)),
                    y = std::to_string(static_cast<int>(r[1] + r[3] / 2));
  xdotool({"mousemove", "--window", window_id_.empty() ? (xdotool({"sleep", "0"}), window_id_) : window_id_, x, y});
  frames(2);
  // ImGui 1.86 samples buttons once a frame: down and up must not fall into one.
  xdotool({"mousedown", "1"});
  frames(2);
  xdotool({"mouseup", "1"});
  frames(2);
}

void WindowDriver::drag(const std::string& item, double from, double to) {
  const auto r = rect(item);
  const std::string y = std::to_string(static_cast<int>(r[1] + r[3] / 2));
  const auto x = [&](double share) { return std::to_string(static_cast<int>(r[0] + r[2] * share)); };
  xdotool({"sleep", "0"});
  xdotool({"mousemove", "--window", window_id_, x(from), y});
  frames(2);
  xdotool({"mousedown", "1"});
  frames(2);
  for (int i = 1; i <= 4; ++i) {
    xdotool({"mousemove", "--window", window_id_, x(from + (to - from) * i / 4), y});
    frames(1);
  }
  frames(2);
  xdotool({"mouseup", "1"});
  frames(2);
}

void WindowDriver::key(const std::string& keys, bool ends) {
  std::vector<std::string> words = {"key", "--clearmodifiers"};
  std::istringstream all(keys);
  for (std::string one; all >> one;) words.push_back(one);
  xdotool(words);
  if (!ends) frames(2);
}

void WindowDriver::hold(const std::string& modifier, const std::string& key) {
  xdotool({"keydown", modifier, "keydown", key});
  frames(2);
  xdotool({"keyup", key, "keyup", modifier});
  frames(2);
}

void WindowDriver::type(const std::string& text) {
  xdotool({"type", "--delay", "30", text});
  frames(3);
}

bool WindowDriver::inputs(std::vector<std::string> words) {
  try {
    if (window_id_.empty()) xdotool({"sleep", "0"});  // finds the window and gives it the keys
    std::replace(words.begin(), words.end(), std::string("{window}"), window_id_);
    xdotool(words);
  } catch (const std::runtime_error&) {
    return false;
  }
  return true;
}

void WindowDriver::kill() { process_->signal_group(SIGKILL); }

int WindowDriver::exit_code() {
  const auto status = process_->wait(std::chrono::seconds(15 * kSlowdown));
  return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
}

std::string WindowDriver::last_words() {
  const auto status = process_->wait(std::chrono::seconds(15 * kSlowdown));
  std::string words = (status ? describe_wait_status(*status) : "it has not ended") + ": ";
  pollfd p{process_->stderr_fd(), POLLIN, 0};
  for (char bytes[4096]; ::poll(&p, 1, 0) > 0;) {
    const ssize_t n = ::read(p.fd, bytes, sizeof bytes);
    if (n <= 0) break;
    words.append(bytes, static_cast<std::size_t>(n));
  }
  return words;
}

void decode_short(WindowDriver& window, const char* policy) {
  window.wait({{"/model", {{"not", nullptr}}}, {"/engine", "ready"}});
  window.command("prompt.set", {{"text", "one two three four five six seven eight nine ten"}});
  window.command("run.max_tokens", {{"n", 6}});
  window.command("policy.set", {{"policy", policy}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
}

}  // namespace kvscope::test
