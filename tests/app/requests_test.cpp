// Conditions that scripts wait for, and requests over the control socket.

#include "app/control/requests.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <thread>

#include "app/control/control_server.h"
#include "engine/core/support/error.h"
#include "tests/app/process.h"

using namespace kvscope;
using namespace kvscope::app;
using nlohmann::json;

TEST_CASE("A condition holds when every pointer's value is as it says") {
  const json state = {
      {"running", false}, {"a", {{"n_tokens", 12}}}, {"banners", {{{"text", "engine stopped"}}}}, {"b", nullptr}};
  CHECK(holds({{"/running", false}}, state));
  CHECK_FALSE(holds({{"/running", true}}, state));
  CHECK(holds({{"/a/n_tokens", {{"at_least", 12}}}}, state));
  CHECK_FALSE(holds({{"/a/n_tokens", {{"at_least", 13}}}}, state));
  CHECK(holds({{"/banners", {{"contains", "stopped"}}}}, state));
  CHECK(holds({{"/b", nullptr}, {"/nowhere", nullptr}}, state));
  CHECK_FALSE(holds({{"/a", {{"not", nullptr}}}, {"/running", true}}, state));
  CHECK_FALSE(holds({{"/b", {{"not", nullptr}}}}, state));
  CHECK_THROWS_AS(holds({{"/running", {{"at_most", 1}}}}, state), Error);
  CHECK_THROWS(holds({{"no pointer", 1}}, state));
}

TEST_CASE("A wait is answered once it holds, or with an error when its time is over") {
  json state = {{"n", 0}};
  Requests requests({.execute = nullptr, .state = [&] { return state; }, .busy = [] { return false; }});
  json answer;
  requests.add({{"query", "wait"}, {"until", {{"/n", 1}}}}, [&](const json& a) { answer = a; });
  requests.serve();
  CHECK(answer.is_null());
  state["n"] = 1;
  requests.serve();
  CHECK(answer["ok"] == true);
  CHECK_FALSE(requests.waiting());
  requests.add({{"query", "wait"}, {"until", {{"/n", 2}}}, {"timeout", 0}}, [&](const json& a) { answer = a; });
  requests.serve();
  CHECK(answer["ok"] == false);
  CHECK(answer["error"].get<std::string>().find("timed out") != std::string::npos);
}

TEST_CASE("A command is executed once, though its answer waits for its effect") {
  int executed = 0;
  bool busy = true;
  Requests requests({.execute = [&](const std::string&, const json&) { return json(++executed); },
                     .state = nullptr,
                     .busy = [&] { return busy; }});
  json answer;
  requests.add({{"command", "x"}}, [&](const json& a) { answer = a; });
  requests.serve();
  requests.serve();
  CHECK(answer.is_null());
  busy = false;
  requests.serve();
  CHECK(executed == 1);
  CHECK(answer["result"] == 1);
}

TEST_CASE("A command whose effect does not come in its time is given up, with an error") {
  bool busy = true;
  Requests requests({.execute = [](const std::string&, const json&) { return json(); },
                     .state = nullptr,
                     .busy = [&] { return busy; },
                     .give_up = [&] { busy = false; }});
  json answer;
  requests.add({{"command", "app.screenshot"}, {"timeout", 0}}, [&](const json& a) { answer = a; });
  requests.serve();
  CHECK_FALSE(busy);
  CHECK(answer["error"] == "app.screenshot: timed out waiting for views that compute");
}

TEST_CASE("Malformed requests are answered with an error") {
  Requests requests({.execute = [](const std::string&, const json&) -> json { throw Error({.found = "refused"}); },
                     .state = [] { return json(); },
                     .busy = [] { return false; }});
  const json request = GENERATE(json(3), json{{"query", "nonsense"}}, json{{"query", "wait"}}, json{{"command", 5}},
                                json{{"command", "x"}});
  json answer;
  requests.add(request, [&](const json& a) { answer = a; });
  requests.serve();
  CHECK(answer["ok"] == false);
}

TEST_CASE("What a client waits for is dropped when it has gone, and a command that it sent is still executed") {
  int executed = 0;
  Requests requests({.execute = [&](const std::string&, const json&) { return json(++executed); },
                     .state = [] { return json::object(); },
                     .busy = [] { return false; }});
  int answers = 0;
  const auto count = [&](const json&) { ++answers; };
  for (int i = 0; i < 64; ++i) requests.add({{"query", "wait"}, {"until", {{"/n", 1}}}, {"timeout", 1e6}}, count, 5);
  requests.add({{"query", "wait"}, {"until", {{"/n", 1}}}, {"timeout", 0}}, count, 6);
  requests.add({{"command", "x"}}, count, 5);
  requests.drop(5);
  requests.serve();
  CHECK(executed == 1);
  CHECK(answers == 2);  // of the command, and of the other client's wait, whose time is over
  CHECK_FALSE(requests.waiting());
}

TEST_CASE("However many requests ask for it, the state is made once a call, and anew after a command") {
  int made = 0, executed = 0;
  Requests requests({.execute = [&](const std::string&, const json&) { return json(++executed); },
                     .state =
                         [&] {
                           return json{{"made", ++made}, {"executed", executed}};
                         },
                     .busy = [] { return false; }});
  std::vector<json> answers;
  const auto keep = [&](const json& answer) { answers.push_back(answer); };
  for (int i = 0; i < 20; ++i) requests.add({{"query", "wait"}, {"until", {{"/n", 1}}}}, keep);
  requests.add({{"query", "state"}}, keep);
  requests.add({{"command", "x"}}, keep);
  requests.add({{"query", "state"}}, keep);
  while (answers.size() < 3) requests.serve();
  CHECK(answers[2]["state"]["executed"] == 1);
  const int before = made;
  requests.serve();
  CHECK(made <= before + 1);
}

TEST_CASE("A flood of requests is served a part at a time, each in its turn") {
  Requests requests({.execute = nullptr,
                     .state =
                         [] {
                           std::this_thread::sleep_for(std::chrono::milliseconds(20));
                           return json::object();
                         },
                     .item = nullptr,
                     .text =
                         [](const std::string& id) {
                           std::this_thread::sleep_for(std::chrono::milliseconds(20));
                           return json(id);
                         },
                     .items = nullptr,
                     .commands = nullptr,
                     .busy = [] { return false; }});
  std::vector<json> answers;
  for (int i = 0; i < 6; ++i) {
    requests.add({{"query", "text"}, {"id", std::to_string(i)}},
                 [&](const json& answer) { answers.push_back(answer["text"]); });
  }
  requests.serve();
  CHECK(answers.size() == 1);
  for (int i = 0; i < 5; ++i) requests.serve();
  CHECK(answers == std::vector<json>{"0", "1", "2", "3", "4", "5"});
}

TEST_CASE("A time limit of any size is a time limit") {
  Requests requests({.execute = nullptr, .state = [] { return json::object(); }, .busy = [] { return false; }});
  json answer;
  const double timeout = GENERATE(1e308, 1e18, -1e308, -5.0);
  requests.add({{"query", "wait"}, {"until", {{"/n", 2}}}, {"timeout", timeout}}, [&](const json& a) { answer = a; });
  requests.serve();
  CHECK(answer.is_null() == (timeout > 0));
}

namespace {

int connect_to(const std::filesystem::path& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  std::copy(name.begin(), name.end(), address.sun_path);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

/// The next line, which must come within 20 s.
ControlServer::Line next_line(ControlServer& server) {
  for (int i = 0; i < 4000; ++i) {
    const auto lines = server.take_lines();
    if (!lines.empty()) return lines[0];
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  FAIL("no line");
  return {};
}

}  // namespace

TEST_CASE("A client that does not read its answers costs nobody but itself") {
  const test::TemporaryFolder folder;
  ControlServer server(folder / "control", [] {});
  const int deaf = connect_to(folder / "control"), other = connect_to(folder / "control");
  REQUIRE(::write(deaf, "a\n", 2) == 2);
  const int deaf_id = next_line(server).connection;
  const json large = {{"text", std::string(1 << 20, 'x')}};
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) server.answer(deaf_id, large);  // past what is kept for it: it is dropped
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10 * test::kSlowdown));
  REQUIRE(::write(other, "b\n", 2) == 2);
  const auto line = next_line(server);
  CHECK(line.text == "b");
  server.answer(line.connection, {{"ok", true}});
  char buffer[64];
  CHECK(::read(other, buffer, sizeof buffer) == 12);
  std::size_t got = 0;
  std::vector<char> bytes(1 << 20);
  for (ssize_t n; (n = ::read(deaf, bytes.data(), bytes.size())) > 0;) got += static_cast<std::size_t>(n);
  CHECK(got < std::size_t{70} << 20);
  ::close(deaf), ::close(other);
}

TEST_CASE("A client that asks without waiting is heard as far as its answers come") {
  const test::TemporaryFolder folder;
  ControlServer server(folder / "control", [] {});
  const int fd = connect_to(folder / "control");
  std::thread client([fd] {
    const std::string many(1 << 20, '\n');
    for (std::size_t sent = 0; sent < many.size();) {
      const ssize_t n = ::send(fd, many.data() + sent, many.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto lines = server.take_lines();
  CHECK(lines.size() > 0);
  CHECK(lines.size() < 20'000);
  ::shutdown(fd, SHUT_RDWR);
  client.join();
  ::close(fd);
}

TEST_CASE("The control socket says which clients have gone, however they went, and has their last lines first") {
  const test::TemporaryFolder folder;
  ControlServer server(folder / "control", [] {});
  const int fd = connect_to(folder / "control");
  std::string many;
  for (int i = 0; i < 64; ++i) many += "{}\n";  // as many as may wait unanswered: it is not read from any more
  REQUIRE(::write(fd, many.data(), many.size()) == static_cast<ssize_t>(many.size()));
  std::size_t lines = 0;
  int id = 0;
  while (lines < 64) {
    for (const auto& line : server.take_lines()) ++lines, id = line.connection;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  CHECK(server.take_gone().empty());
  ::close(fd);
  std::vector<int> gone;
  for (int i = 0; i < 4000 && gone.empty(); ++i) {
    gone = server.take_gone();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(gone == std::vector<int>{id});
  CHECK(server.take_gone().empty());
}

TEST_CASE("A control socket takes no other's place, and leaves only its own") {
  const test::TemporaryFolder folder;
  const auto path = folder / "control";
  std::ofstream(path) << "precious";
  CHECK_THROWS_WITH(ControlServer(path, [] {}), Catch::Contains("not a socket"));
  CHECK(test::read_text(path) == "precious");
  std::filesystem::remove(path);
  std::filesystem::create_symlink(folder / "elsewhere", path);
  CHECK_THROWS_WITH(ControlServer(path, [] {}), Catch::Contains("not a socket"));
  std::filesystem::remove(path);
  {
    ControlServer first(path, [] {});
    CHECK_THROWS_WITH(ControlServer(path, [] {}), Catch::Contains("another program is already listening"));
    CHECK(std::filesystem::exists(path));
    std::filesystem::rename(path, folder / "moved");
    std::ofstream(path) << "somebody's";
  }
  CHECK(test::read_text(path) == "somebody's");
  std::filesystem::remove(path);
  ControlServer again(folder / "moved", [] {});  // nobody listens there any more
  struct stat info {};
  REQUIRE(::stat((folder / "moved").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("The control socket is for this user only, splits lines and answers the connection that asked") {
  const test::TemporaryFolder folder;
  const auto path = folder / "control";
  ControlServer server(path, [] {});
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 077) == 0);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  std::copy(name.begin(), name.end(), address.sun_path);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const std::string text = "{\"a\": 1}\n{\"b\"";
  REQUIRE(::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  std::vector<ControlServer::Line> lines;
  for (int i = 0; i < 500 && lines.empty(); ++i) {
    lines = server.take_lines();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  REQUIRE(lines.size() == 1);  // the second line is not whole yet
  CHECK(lines[0].text == "{\"a\": 1}");
  server.answer(lines[0].connection, {{"ok", true}});
  char buffer[64];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  CHECK(std::string(buffer, static_cast<std::size_t>(std::max<ssize_t>(n, 0))) == "{\"ok\":true}\n");
  ::close(fd);
}
