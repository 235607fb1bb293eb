// The engine as a child process: its events, its death, its silence.

#include "app/engine_client/engine_client.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "engine/core/protocol/events.h"
#include "engine/core/support/child_process.h"
#include "engine/core/support/error.h"
#include "tests/app/process.h"

using namespace kvscope;
using namespace kvscope::app;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

// The first event of that type; the others before it are dropped. Fails the test after 20 s (a loaded machine is slow).
json wait_for(EngineClient& client, const std::string& type) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    const auto event = client.wait_event(milliseconds(100));
    if (event && event->value("type", "") == type) return *event;
  }
  FAIL("no event of type " << type);
  return {};
}

std::string fake(const std::string& options = "") { return test::fake_engine().string() + " " + options; }

bool gone(pid_t pid) {
  for (int i = 0; i < 4000; ++i) {
    if (::kill(pid, 0) != 0) return true;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return false;
}

}  // namespace

// The tables of all pages were copied: a window that held runs of 4 GB stood still for 90 ms.
TEST_CASE("What the start of a child costs its parent does not grow with the memory that this has") {
  const auto cost_ms = [] {
    const auto now = [] {
      timespec used{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
      return 1e3 * static_cast<double>(used.tv_sec) + 1e-6 * static_cast<double>(used.tv_nsec);
    };
    double least = 1e9;
    for (int i = 0; i < 5; ++i) {
      const double begin = now();
      ChildProcess child = ChildProcess::start({"/bin/true"});
      least = std::min(least, now() - begin);
      child.wait(milliseconds(5000));
    }
    return least;
  };
  const double before = cost_ms();
  const std::vector<char> held(std::size_t{512} << 20, 1);  // 12 ms
  CHECK(cost_ms() < before + 4 * test::kSlowdown);
  CHECK(held.back() == 1);
}

TEST_CASE("The engine hf is the one in Python, with its options and its modules") {
  const test::TemporaryFolder folder;
  const std::filesystem::path python = folder / "a python", noted = folder / "noted";
  std::ofstream(python) << "#!/bin/sh\nprintf '%s\\n' \"$*\" \"$PYTHONPATH\" > " << noted << "\nexec " << fake()
                        << "\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const test::Variable asked("KVSCOPE_PYTHON", python.string());
  {
    EngineClient client({.command = "hf --method my.py:mine"});
    CHECK(wait_for(client, "hello")["version"] == protocol::kVersion);
  }
  std::ifstream file(noted);
  std::string arguments, path;
  std::getline(file, arguments), std::getline(file, path);
  CHECK(arguments == "-m kvscope.engine --method my.py:mine");
  CHECK(std::filesystem::exists(std::filesystem::path(path.substr(0, path.find(':'))) / "kvscope" / "engine.py"));
}

TEST_CASE("An engine greets, serves requests by id and quits with its client") {
  pid_t pid;
  {
    EngineClient client({.command = fake()});
    pid = client.pid();
    CHECK(wait_for(client, "hello")["version"] == protocol::kVersion);
    const int id = client.request(protocol::LoadRequest{.model = "m"});
    const json done = wait_for(client, "done");
    CHECK(done["id"] == id);
    CHECK(done["model"]["n_layers"] == 6);
  }
  CHECK(gone(pid));
}

TEST_CASE("The end of an engine is its last event, with the reason and its last words") {
  EngineClient client({.command = "echo first >&2; echo last >&2; exit 5"});
  const json ended = wait_for(client, "ended");
  CHECK(ended["reason"] == "exit code 5");
  CHECK(ended["expected"] == false);
  CHECK(ended["stderr"] == json{"first", "last"});
  CHECK(client.ended());
  client.request(protocol::LoadRequest{});  // goes nowhere and harms nobody
}

TEST_CASE("A killed engine is reported with the signal's name") {
  EngineClient client({.command = "exec " + fake()});
  wait_for(client, "hello");
  ::kill(client.pid(), SIGTERM);
  CHECK(wait_for(client, "ended")["reason"].get<std::string>().find("signal 15") != std::string::npos);
}

TEST_CASE("A stream that is no protocol ends the engine instead of being believed") {
  EngineClient client({.command = "printf '\\377\\377\\377\\377garbage'; sleep 60"});
  const json ended = wait_for(client, "ended");
  CHECK(ended["reason"].get<std::string>().size() > 5);
  CHECK(gone(client.pid()));
}

TEST_CASE("An engine that talks faster than anybody listens is ended, and its end says so") {
  const test::TemporaryFolder folder;
  std::vector<std::uint8_t> said;
  const auto say = [&](const json& message) {
    const std::vector<std::uint8_t> body = json::to_cbor(message);
    for (int i = 0; i < 4; ++i) said.push_back(static_cast<std::uint8_t>(body.size() >> (8 * i)));
    said.insert(said.end(), body.begin(), body.end());
  };
  say(protocol::hello("0", "0", false, "cpu"));
  for (int i = 0; i < 200; ++i) say(protocol::log(-1, std::string(1000, 'x')));
  std::ofstream(folder / "said", std::ios::binary).write(reinterpret_cast<const char*>(said.data()), said.size());
  const std::string command = "cat '" + (folder / "said").string() + "'; exec sleep 60";
  const auto [limits, line] =
      GENERATE(table<EventLimits, std::string>({{{.max_events = 100}, "more than 100 unread events"},
                                                {{.max_bytes = 100'000}, "more than 100000 unread bytes"}}));
  EngineClient client({.command = command, .limits = limits});
  // Nobody listens until it is gone: who takes events meanwhile makes room for more. The event that says so comes later.
  REQUIRE(gone(client.pid()));
  std::vector<json> events;
  while (events.empty() || events.back().value("type", "") != "ended") {
    for (json& event : client.take_events()) events.push_back(std::move(event));
    std::this_thread::sleep_for(milliseconds(5));
  }
  CHECK(events.size() > 90);
  CHECK(events.size() <= 102);
  CHECK_THAT(events.back()["reason"].get<std::string>(), Catch::Contains(line));
}

TEST_CASE("Engines that were asked to quit and hang are killed after one patience, not after one each") {
  std::vector<std::unique_ptr<EngineClient>> clients;
  for (int i = 0; i < 6; ++i)
    clients.push_back(std::make_unique<EngineClient>(EngineClient::Options{.command = "exec " + fake("--hang")}));
  for (const auto& client : clients) REQUIRE(client->wait_event(milliseconds(20'000)));  // the greeting
  const auto start = std::chrono::steady_clock::now();
  for (const auto& client : clients) client->ask_to_quit();
  for (const auto& client : clients) client->stop(milliseconds(1000));
  CHECK(std::chrono::steady_clock::now() - start < milliseconds(3000) * test::kSlowdown);
}

TEST_CASE("An engine that hangs is killed when it is asked to stop, with all it started") {
  const auto start = std::chrono::steady_clock::now();
  auto client = std::make_unique<EngineClient>(EngineClient::Options{.command = fake("--hang") + " & wait"});
  wait_for(*client, "hello");
  // More than a pipe holds: requests must not block the caller though nobody reads them.
  for (int i = 0; i < 8; ++i) client->request(protocol::LoadRequest{.model = std::string(100'000, 'x')});
  const pid_t pid = client->pid();
  client->stop(milliseconds(300));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  client.reset();
  CHECK(gone(pid));
}

TEST_CASE("An engine that cannot be started is an error that names it") {
  CHECK_THROWS_AS(ChildProcess::start({"/no/such/program"}), Error);
  CHECK_THROWS_WITH(ChildProcess::start({"/no/such/program"}), Catch::Contains("/no/such/program"));
}

TEST_CASE("A cancelled request ends at the next step with status cancelled") {
  EngineClient client({.command = fake("--hold")});
  wait_for(client, "hello");
  client.request(protocol::LoadRequest{.model = "m"});
  wait_for(client, "done");
  const int id = client.request(protocol::JobRequest{.job = "bench"});
  wait_for(client, "progress");
  client.cancel(id);
  CHECK(wait_for(client, "done")["result"]["status"] == "cancelled");
}

TEST_CASE("The sink sees every event first and may keep it from the queue") {
  std::atomic<int> seen = 0;
  EngineClient client({.command = fake(), .sink = [&](const json& event) {
                         ++seen;
                         return event.value("type", "") == "progress";
                       }});
  wait_for(client, "hello");
  client.request(protocol::LoadRequest{.model = "m"});
  const json next = *client.wait_event(std::chrono::seconds(20));
  CHECK(next["type"] == "done");
  CHECK(seen >= 6);  // hello, four times progress, done
}
