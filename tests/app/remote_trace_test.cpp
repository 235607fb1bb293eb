// Traces of other machines, over an ssh that stays on this one.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/catalog/remote_file.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/app/program.h"
#include "tests/app/window_driver.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

namespace {

namespace fs = std::filesystem;

/// Another machine: its home is there/, and `ssh` has a program of this text before it runs the command.
struct OtherMachine {
  explicit OtherMachine(const std::string& before = "") {
    fs::create_directories(home());
    std::ofstream(folder / "ssh") << "#!/bin/sh\nwhile [ \"$1\" = -o ]; do shift 2; done\necho \"$1\" >> "
                                  << (folder / "hosts").string() << "\ncd " << home().string() << " || exit 1\n"
                                  << before << "\nexec sh -c \"$2\"\n";
    fs::permissions(folder / "ssh", fs::perms::owner_all);
  }
  fs::path home() const { return folder / "there"; }
  fs::path trace(const std::string& name, int seed = 1) const {
    save_trace(home() / name, test::random_run(static_cast<unsigned>(seed)), true);
    return home() / name;
  }
  std::map<std::string, std::string> environment() const {
    return {{"KVSCOPE_SSH", (folder / "ssh").string()}, {"XDG_CACHE_HOME", (folder / "cache").string()}};
  }
  test::Launch launch(Words words) const {
    words.insert(words.begin(), test::kvscope().string());
    return {.argv = words, .environment = environment(), .folder = folder.path()};
  }
  test::Result run(Words words) const { return test::run(launch(std::move(words))); }
  /// The copies, and what is left of unfinished ones.
  std::vector<fs::path> cached() const {
    std::vector<fs::path> files;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(folder / "cache" / "kvscope" / "remote", error))
      if (entry.is_regular_file()) files.push_back(entry.path());
    return files;
  }
  test::TemporaryFolder folder;
};

void check_one_line(const test::Result& result, int exit_code, const std::string& contains) {
  INFO(result.err);
  CHECK(result.exit_code == exit_code);
  const std::string last =
      result.err.substr(result.err.rfind("error: ") == std::string::npos ? 0 : result.err.rfind("error: "));
  CHECK(last.starts_with("error: "));
  CHECK(test::count_lines(last) == 1);
  CHECK_THAT(last, Contains(contains));
}

/// Of this process, for what runs in it.
struct Environment {
  explicit Environment(const OtherMachine& machine) {
    for (const auto& [name, value] : machine.environment()) {
      before.emplace_back(name, std::getenv(name.c_str()) ? std::getenv(name.c_str()) : "");
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before)
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<std::pair<std::string, std::string>> before;
};

}  // namespace

TEST_CASE("Every command that reads a trace reads one of another machine", "[remote]") {
  const OtherMachine machine;
  machine.trace("a.h5"), machine.trace("b.h5", 2);
  const std::vector<Words> commands = {{"inspect", "gpu01:a.h5"},
                                       {"export", "me@gpu01:a.h5", "-o", "a.csv"},
                                       {"figure", "--preset", "kvpop-fig6", "gpu01:a.h5", "-o", "f.svg"},
                                       {"compare", "gpu01:a.h5", "gpu01:./b.h5"},
                                       {"heads", "gpu01:~/a.h5", "--strategy", "b"},
                                       {"what-if", "gpu01:a.h5", "kvpop:budget=50,window=16"}};
  for (const Words& words : commands) {
    const auto result = machine.run(words);
    INFO(words[0] << ": " << result.err);
    CHECK(result.exit_code == 0);
  }
  CHECK_THAT(test::read_text(machine.folder / "hosts"), Contains("me@gpu01\n"));
  CHECK_THAT(machine.run({"inspect", "gpu01:a.h5"}).out, Contains("kvpop"));
}

TEST_CASE("A trace that did not change is copied once, a changed one again", "[remote]") {
  const OtherMachine machine;
  machine.trace("a.h5");
  CHECK_THAT(machine.run({"inspect", "gpu01:a.h5"}).err, Contains("copying gpu01:a.h5"));
  REQUIRE(machine.cached().size() == 1);
  CHECK(test::read_text(machine.cached()[0]) == test::read_text(machine.home() / "a.h5"));
  const auto again = machine.run({"inspect", "gpu01:a.h5"});
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.err, !Contains("copying"));
  CHECK(machine.cached().size() == 1);
  machine.trace("a.h5", 2);
  fs::last_write_time(machine.home() / "a.h5", fs::file_time_type::clock::now() + std::chrono::seconds(5));
  CHECK_THAT(machine.run({"inspect", "gpu01:a.h5"}).err, Contains("copying"));
  CHECK(machine.cached().size() == 2);
  CHECK(machine.run({"inspect", "other:a.h5"}).exit_code == 0);  // another machine may have another file
  CHECK(machine.cached().size() == 3);
}

TEST_CASE("Names with spaces and quotes reach the other machine, past what its login script prints", "[remote]") {
  const OtherMachine machine("echo Welcome; echo 'kvscope is great'");
  machine.trace("it's a \"trace\" $HOME.h5");
  const auto result = machine.run({"inspect", "gpu01:it's a \"trace\" $HOME.h5"});
  INFO(result.err);
  CHECK(result.exit_code == 0);
}

TEST_CASE("A copy that cannot be made is one line with the right exit code, and leaves nothing", "[remote]") {
  const OtherMachine machine,
      refusing("echo 'Warning: old key' >&2; echo 'me@gpu01: Permission denied (publickey).' >&2; exit 255"),
      breaking("sh -c \"$2\" | dd bs=5000 count=2 2> /dev/null; exit 255");
  std::ofstream(machine.home() / "text.h5") << "this is no trace";
  std::ofstream(machine.home() / "empty.h5");
  fs::create_directory(machine.home() / "folder.h5");
  breaking.trace("a.h5");
  check_one_line(refusing.run({"inspect", "me@gpu01:a.h5"}), 3,
                 "me@gpu01:a.h5: ssh failed: me@gpu01: Permission denied (publickey).");
  check_one_line(machine.run({"inspect", "gpu01:none.h5"}), 2, "gpu01:none.h5: no such file");
  check_one_line(machine.run({"inspect", "gpu01:folder.h5"}), 2, "a folder");
  check_one_line(machine.run({"inspect", "gpu01:text.h5"}), 2, "gpu01:text.h5: not an HDF5 file");
  check_one_line(machine.run({"inspect", "gpu01:empty.h5"}), 2, "gpu01:empty.h5: an empty file");
  check_one_line(breaking.run({"inspect", "gpu01:a.h5"}), 3, "gpu01:a.h5: it ended after");
  test::Launch without = machine.launch({"inspect", "gpu01:a.h5"});
  without.environment["KVSCOPE_SSH"] = "/no/such/ssh";
  check_one_line(test::run(without), 3, "/no/such/ssh");
  for (const OtherMachine* one : {&machine, &refusing, &breaking}) CHECK(one->cached().empty());
}

TEST_CASE("Ctrl+C ends a copy and removes what it has", "[remote]") {
  const OtherMachine machine("sh -c \"$2\" | { dd bs=5000 count=2 2> /dev/null; sleep 60; }; exit");
  machine.trace("a.h5");
  test::Launch launch = machine.launch({"inspect", "gpu01:a.h5"});
  launch.interrupt_when = [&] { return !machine.cached().empty(); };
  const auto result = test::run(launch);
  CHECK(result.exit_code == 130);
  CHECK(result.after_interrupt < 5 * test::kSlowdown);
  check_one_line(result, 130, "gpu01:a.h5: cancelled");
  CHECK(machine.cached().empty());
}

TEST_CASE("The cache stays below its limit: what was used longest ago is removed", "[remote]") {
  const OtherMachine machine;
  const Environment environment(machine);
  const auto bytes = fs::file_size(machine.trace("a.h5"));
  machine.trace("b.h5"), machine.trace("c.h5");
  const auto copy = [&](const std::string& name) {
    return app::copy_remote(
        *app::remote_file("gpu01:" + name), [](auto, auto) { return true; }, bytes * 5 / 2);
  };
  const fs::path a = copy("a.h5"), b = copy("b.h5");
  fs::last_write_time(a, fs::file_time_type::clock::now() - std::chrono::hours(2));
  fs::last_write_time(b, fs::file_time_type::clock::now() - std::chrono::hours(1));
  CHECK(copy("a.h5") == a);  // used now
  const fs::path c = copy("c.h5");
  CHECK(fs::exists(a));
  CHECK(fs::exists(c));
  CHECK_FALSE(fs::exists(b));
}

TEST_CASE("What names a file of this machine, or no host, is no trace of another one", "[remote]") {
  for (const char* word :
       {"a.h5", "/a:b.h5", "./a:b.h5", ":a.h5", "gpu01:", "-oProxy:a.h5", "two words:a.h5", "a;b:c.h5"}) {
    INFO(word);
    CHECK_FALSE(app::remote_file(word));
  }
  const auto file = app::remote_file("me@gpu-1.example.org:runs/a.h5");
  REQUIRE(file);
  CHECK(file->host == "me@gpu-1.example.org");
  CHECK(file->path == "runs/a.h5");
  CHECK(file->is_trace());
  CHECK_FALSE(app::remote_file("kvpop:budget=512")->is_trace());
  const OtherMachine machine;
  save_trace(machine.folder / "gpu01:a.h5", test::random_run(1), true);
  CHECK(machine.run({"inspect", "gpu01:a.h5"}).exit_code == 0);
  CHECK_FALSE(fs::exists(machine.folder / "hosts"));
}

TEST_CASE("A model or a shard on another machine is refused with what to do instead", "[remote]") {
  const OtherMachine machine;
  check_one_line(machine.run({"run", "gpu01:models/qwen", "--prompt", "x"}), 2,
                 "--engine \"ssh gpu01 kvscope-engine\"");
  check_one_line(machine.run({"gpu01:models/qwen"}), 2, "--engine \"ssh gpu01 kvscope-engine\"");
  check_one_line(machine.run({"merge", "gpu01:s0.h5", "-o", "m.h5"}), 1, "copy them into one folder first");
}

TEST_CASE("The window opens a trace of another machine while it goes on, and remembers where it is from", "[remote]") {
  const OtherMachine machine("while ! [ -e ../go ]; do sleep 0.05; done");
  machine.trace("a.h5");
  const Environment environment(machine);
  test::Program program;
  program.run("file.open", {{"path", "gpu01:a.h5"}});
  test::poll_until(program.session, [&] { return program.session.remote().copying().has_value(); });
  CHECK(program.session.remote().copying()->word == "gpu01:a.h5");
  CHECK(program.session.runs().all().empty());
  std::ofstream(machine.folder / "go");
  test::poll_until(program.session, [&] { return program.session.runs().all().size() == 1; });
  program.settle();
  CHECK_FALSE(program.session.remote().copying());
  CHECK(program.session.files().recent().front() == "gpu01:a.h5");
  CHECK(program.session.files().place().empty());
}

TEST_CASE("Stop waiting ends the window's copy without a message of an error", "[remote]") {
  const OtherMachine machine("sleep 60");
  const Environment environment(machine);
  test::Program program;
  program.run("trace.open", {{"path", "gpu01:a.h5"}});
  test::poll_until(program.session, [&] { return program.session.remote().copying().has_value(); });
  program.run("file.give_up");
  test::poll_until(program.session, [&] { return !program.session.remote().busy(); });
  CHECK(program.session.messages().banners().empty());
  CHECK_THAT(program.session.messages().notice(), Contains("gpu01:a.h5"));
}

TEST_CASE("A copy that fails is a banner of the window", "[remote]") {
  const OtherMachine machine;
  const Environment environment(machine);
  test::Program program;
  program.run("file.open", {{"path", "gpu01:none.h5"}});
  test::poll_until(program.session, [&] { return !program.session.messages().banners().empty(); });
  CHECK_THAT(program.session.messages().banners()[0].text, Contains("gpu01:none.h5: no such file"));
}

TEST_CASE("The window copies the trace that it was started on or that was typed, shows how far it is, and always ends",
          "[remote]") {
  if (test::skip_without_display()) return;
  const OtherMachine machine("while ! [ -e ../go ]; do sleep 0.05; done");
  machine.trace("a.h5");
  const test::Xvfb display;
  const Environment environment(machine);
  test::WindowDriver window(display,
                            {.engine = test::fake(), .words = {"gpu01:a.h5"}, .cache = machine.folder / "cache"});
  CHECK_THAT(window.text_soon("status", "connecting to copy gpu01:a.h5"), Contains("connecting"));
  window.frames(5);  // it goes on
  window.click("button.file.give_up");
  window.wait({{"/files_busy", false}});
  window.command("file.open");
  window.wait({{"/ui/dialog", "file.open"}, {"/ui/text_input", true}});
  window.type("gpu01:a.h5");
  window.text_soon("dialog.path", "gpu01:a.h5");
  window.key("Return");
  CHECK_THAT(window.text_soon("status", "connecting to copy gpu01:a.h5"), Contains("connecting"));
  std::ofstream(machine.folder / "go");
  window.wait({{"/runs/0/trace", {{"contains", "a.h5"}}}});
  CHECK(window.state()["banners"].empty());
  fs::remove(machine.folder / "go");
  window.command("trace.open", {{"path", "gpu01:a.h5"}});
  window.text_soon("status", "gpu01:a.h5");
  window.key("ctrl+q", true);
  CHECK(window.exit_code() == 0);
}
