// What a person is told while nothing comes, and that the window ends whatever does not.

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <thread>

#include "engine/core/trace/trace_file.h"
#include "tests/app/window_driver.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"
#include "tests/support/slowdown.h"

using namespace kvscope;
using nlohmann::json;
using test::fake;
using test::skip_without_display;
using test::WindowDriver;
using test::Xvfb;

namespace {

namespace fs = std::filesystem;

void ready(WindowDriver& window) {
  window.wait({{"/model", "kvscope-tiny"}, {"/engine", "ready"}, {"/workspace/restoring", false}});
  window.command("prompt.set", {{"text", "one two three four five six seven eight nine ten"}});
  window.wait({{"/parameters/prompt_tokens", {{"at_least", 10}}}});
}

int connect_to(const fs::path& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  std::copy(name.begin(), name.end(), address.sun_path);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

}  // namespace

// A stopped engine stayed "decode 80 / 800, 24 tok/s, 1:36 left".
TEST_CASE("An engine that is stopped is waited for with a line, after Cancel too, and goes on as before") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--slow 40")});
  ready(window);
  window.command("run.max_tokens", {{"n", 2000}});
  window.command("run.start");
  window.wait({{"/a/n_tokens", {{"at_least", 20}}}, {"/progress/line", {{"contains", " left"}}}});
  const pid_t engine = window.state()["engine_pid"];
  REQUIRE(::kill(engine, SIGSTOP) == 0);
  window.wait({{"/progress/line", {{"contains", "no answer from the engine for 1"}}}});
  std::string line = window.text_soon("status", "no answer from the engine");
  CHECK_THAT(line, Catch::StartsWith("no answer from the engine for ") && Catch::EndsWith(" s"));
  window.command("run.cancel");
  window.frames(3);
  CHECK_THAT(window.text("status"), Catch::StartsWith("no answer from the engine for "));
  REQUIRE(::kill(engine, SIGCONT) == 0);
  window.wait({{"/running", false}, {"/engine", "ready"}});
  CHECK(window.text_soon("status", "stopped at").find("no answer") == std::string::npos);
}

TEST_CASE("An engine that hangs while it loads, or from its first word on, is waited for with a line") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--hang")});
  window.wait({{"/progress/line", {{"contains", "no answer from the engine for 1"}}}});
  CHECK_THAT(window.text_soon("status", "no answer from the engine"),
             Catch::StartsWith("no answer from the engine for "));
}

TEST_CASE("Until the engine answers a run the canvas has its prompt, and no number is made up") {
  if (skip_without_display()) return;
  const Xvfb display;
  WindowDriver window(display, {.engine = fake("--slow 40")});
  ready(window);
  const pid_t engine = window.state()["engine_pid"];
  REQUIRE(::kill(engine, SIGSTOP) == 0);
  window.command("run.start");
  window.frames(4);
  CHECK_THAT(window.text("status"), Catch::StartsWith("starting ..."));
  CHECK_THAT(window.text("welcome.reading"), Catch::StartsWith("starting ...") && Catch::Contains(" tokens"));
  CHECK(window.text("welcome.tokens") == "one two three four five six seven eight nine ten");
  const json items = window.request({{"query", "items"}})["items"];
  CHECK(std::count(items.begin(), items.end(), json("welcome.open")) == 0);  // nothing to press that would do nothing
  REQUIRE(::kill(engine, SIGCONT) == 0);
  window.wait({{"/a/n_tokens", {{"at_least", 12}}}});
}

WINDOW_TEST("Clients that leave in the midst of what they wait for cost the window nothing") {
  ready(window);
  std::string waits;
  const json never = {{"query", "wait"}, {"until", {{"/running", "never"}}}, {"timeout", 1e6}};
  for (int i = 0; i < 64; ++i) waits += never.dump() + "\n";
  std::vector<int> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(connect_to(window.folder() / "control"));
    REQUIRE(::send(clients.back(), waits.data(), waits.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(waits.size()));
  }
  window.frames(3);
  for (const int fd : clients) ::close(fd);
  // Nothing waits any more: nothing is drawn.
  int drawn = 0;
  for (int i = 0; i < 3; ++i) {
    const int before = window.state()["frame"];
    std::this_thread::sleep_for(std::chrono::seconds(4));
    drawn = window.state()["frame"].get<int>() - before;
    if (drawn <= 12) break;
  }
  CHECK(drawn <= 12);  // those of the questions themselves
  ::kill(window.pid(), SIGTERM);
  CHECK(window.exit_code() == 143);
}

TEST_CASE("A window whose state folder cannot be written says so at the start, wherever it is") {
  if (skip_without_display()) return;
  const Xvfb display;
  const test::TemporaryFolder state;
  SECTION("a file is in its place") {
    std::ofstream(state / "kvscope") << "a file";
    WindowDriver window(display, {.engine = fake(), .state = state.path()});
    window.wait({{"/banners",
                  {{"contains", "Nothing will be saved: " + (state / "kvscope/workspace").string() +
                                    " cannot be written. Save your runs as traces yourself."}}}});
    CHECK(window.state()["workspace"]["saved"] == false);
    fs::remove(state / "kvscope");
    window.wait({{"/workspace/saved", true}, {"/banners", json::array()}});
    test::decode_short(window);
    window.wait({{"/workspace/saved", true}});
    CHECK(fs::exists(state / "kvscope/workspace/runs/run-1.h5"));
  }
  SECTION("there is no place for it") {
    WindowDriver window(display, {.engine = fake(), .state = "/proc/no/such"});
    window.wait({{"/banners", {{"contains", "Nothing will be saved: "}}}});
    window.command("app.quit");
    CHECK(window.exit_code() == 0);
  }
}

TEST_CASE("A window with a prompt of 20 MB in its workspace ends when it is told to, in the first second too") {
  if (skip_without_display()) return;
  const Xvfb display;
  const test::TemporaryFolder state;
  {
    WindowDriver window(display, {.engine = fake(), .state = state.path()});
    ready(window);
    window.wait({{"/workspace/saved", true}});
    window.command("app.quit");
    CHECK(window.exit_code() == 0);
  }
  const auto file = state / "kvscope/workspace/workspace.json";
  json object = json::parse(test::read_text(file));
  std::string text;
  while (text.size() < 20'000'000) text += "word" + std::to_string(text.size() % 977) + " ";
  object["state"]["parameters"]["prompt"] = text;
  for (const int wait_ms : {0, 300, 1500}) {
    std::ofstream(file) << object.dump();
    WindowDriver window(display, {.engine = fake(), .state = state.path()});
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    const auto begun = std::chrono::steady_clock::now();
    ::kill(window.pid(), SIGTERM);
    CHECK(window.exit_code() == 143);
    CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(25 * test::kSlowdown));
  }
}

WINDOW_TEST("What is selected of one text is not carried to another, and stays where the tokens are the same") {
  test::decode_short(window);
  window.command("prompt.set", {{"text", "one two three four five six seven eight nine eleven twelve"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/id", 2}, {"/a/status", "complete"}});
  const auto token = [&] { return window.state()["selection"]["token"].get<int>(); };
  window.command("run.show", {{"id", 1}});
  window.command("selection.set", {{"token", 3}});
  window.command("run.show", {{"id", 2}});
  CHECK(token() == 3);
  const int last = window.state()["a"]["prompt_len"].get<int>() - 1;
  window.command("selection.set", {{"token", last}});
  window.command("scrub.to", {{"q", last}});
  window.command("run.show", {{"id", 1}});
  CHECK(token() == -1);
  CHECK(window.state()["selection"]["follow"] == true);
  window.key("ctrl+z");
  window.frames(2);
  CHECK(window.state()["a"]["id"] == 2);
  CHECK(token() == last);
}

TEST_CASE("A trace that is opened offers its own model, if this machine has it") {
  if (skip_without_display()) return;
  const test::TemporaryFolder folder;
  RunRecord run = test::random_run(3);
  run.model.name = "kvscope-tiny";
  run.model.path = "/no/such/folder";
  finish_run(run, RunStatus::complete);
  save_trace(folder / "t.h5", run, true);
  const Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {(folder / "t.h5").string()}});
  window.wait({{"/a/status", "complete"}});
  CHECK(window.text_soon("run.remedy.0", "kvscope-tiny") == "Open kvscope-tiny");
  window.click("run.remedy.0");
  window.wait({{"/model", "kvscope-tiny"}, {"/engine", "ready"}});
}
