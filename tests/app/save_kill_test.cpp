// kill -9 in the midst of saves, of commands and of the window: at a random call that changes a file, half of whose bytes
// are written. Every file is then the old one or the new one, the same save works, and nothing under a temporary name is
// left after it. Some here;
//
//   KVSCOPE_KILLS=500 app_tests "[save_kills]"     500 is the default, an eighth of them of the window; KVSCOPE_SEED

#include <algorithm>

#include "engine/core/support/random.h"
#include "tests/app/capture_support.h"
#include "tests/app/preload.h"
#include "tests/app/window_driver.h"
#include "tests/app/writers.h"
#include "tests/support/folders.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

std::uint64_t seed() {
  const char* value = std::getenv("KVSCOPE_SEED");
  return value ? std::strtoull(value, nullptr, 10) : 20261122;
}

std::map<std::string, std::string> kill_at(int call, const fs::path& folder) {
  return {{"LD_PRELOAD", preload(fault_library("writes"))},
          {"KVSCOPE_FAIL_FOLDER", folder.string()},
          {"KVSCOPE_FAIL_AT", std::to_string(call)},
          {"KVSCOPE_FAIL_HOW", "kill"},
          {"KVSCOPE_FAIL_MARK", "/dev/null"}};
}

/// Names that begin with a dot: of what is not whole.
int temporaries(const fs::path& folder) {
  int n = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    n += entry.path().filename().string().starts_with('.');
  return n;
}

class CommandKills {
 public:
  explicit CommandKills(Random& random) : random_(random) {
    // A capture's own kills: kill_moments_test.cpp.
    std::erase_if(writers_, [](const Writer& writer) { return writer.words[0] == "capture"; });
    most_.assign(writers_.size(), 250);
  }

  /// False: the command had ended before.
  bool kill_one() {
    const std::size_t i = random_.below(writers_.size());
    const Writer& writer = writers_[i];
    const int call = 1 + static_cast<int>(random_.below(static_cast<std::uint64_t>(most_[i])));
    const TemporaryFolder folder;
    folder_.copy_to(folder);
    const Bytes before = files_of(folder.path());
    const Result killed = WritersFolder::run(writer.words, folder.path(), kill_at(call, folder.path()));
    CAPTURE(writer.name, call, killed.err, killed.exit_code);
    if (killed.killed_by != SIGKILL) {
      CHECK(killed.exit_code == 0);
      most_[i] = std::max(1, call - 1);
      return false;
    }
    WritersFolder::check_files(before, folder.path(), folder_.result_of(writer), true);
    left_ += temporaries(folder.path());
    Words again = writer.words;
    if (std::ranges::count(again, "--overwrite") == 0) again.push_back("--overwrite");
    const Result second = WritersFolder::run(again, folder.path(), {});
    INFO(second.err);
    CHECK(second.exit_code == 0);
    WritersFolder::check_files(before, folder.path(), folder_.result_of(writer));
    CHECK(temporaries(folder.path()) == 0);
    return true;
  }
  int left() const { return left_; }

 private:
  Random& random_;
  WritersFolder folder_;
  std::vector<Writer> writers_ = writers();
  std::vector<int> most_;  // calls of each, as far as is known
  int left_ = 0;
};

/// Variables of this process, for the programs that it starts meanwhile.
class Environment {
 public:
  explicit Environment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::string> variables_;
};

class WindowKills {
 public:
  explicit WindowKills(Random& random) : random_(random) {
    fs::create_directory(folder_ / "out");
    for (int kind = 0; kind < 2; ++kind) {
      save_whole(kind);
      results_.push_back(files_of(folder_ / "out"));
    }
    CHECK(results_[0].at("map.svg") != results_[1].at("map.svg"));
  }

  bool kill_one() {
    const int kind = n_++ % 2, call = 1 + static_cast<int>(random_.below(static_cast<std::uint64_t>(most_)));
    CAPTURE(kind, call);
    bool killed = false;
    {
      auto window = start(kill_at(call, folder_.path()));
      try {
        if (window) save(*window, kind);
      } catch (const std::runtime_error&) {
        killed = true;
      }
      if (window && killed) CHECK(window->exit_code() == -1);
      killed = killed || !window;
    }
    if (!killed) most_ = std::max(1, call - 1);
    check_files();
    left_ += temporaries(folder_.path());
    save_whole(kind);
    check_files();
    CHECK(temporaries(folder_.path()) == 0);
    return killed;
  }
  int left() const { return left_; }

 private:
  /// Nothing: it was killed before it could answer.
  std::unique_ptr<WindowDriver> start(std::map<std::string, std::string> environment) const {
    const Environment variables(std::move(environment));
    try {
      return std::make_unique<WindowDriver>(display_,
                                            WindowDriver::Options{.engine = fake(), .state = folder_ / "state"});
    } catch (const std::runtime_error&) {
      return nullptr;
    }
  }
  /// All that a window saves, of one of two policies.
  void save(WindowDriver& window, int kind) const {
    const auto path = [&](const char* name) { return (folder_ / "out" / name).string(); };
    std::string prompt;
    for (int i = 0; i < 60; ++i) prompt += " word" + std::to_string(i % 13);
    window.wait({{"/model", {{"not", nullptr}}}});
    window.command("prompt.set", {{"text", prompt}});
    window.command("policy.set",
                   {{"policy", kind == 0 ? "kvpop:keep=60%,sinks=2,window=4" : "kvpop:keep=30%,sinks=2,window=4"}});
    window.command("run.max_tokens", {{"n", 4}});
    window.command("run.start");
    window.wait({{"/running", false}, {"/a/status", "complete"}});
    window.command("figure.export", {{"path", path("map.svg")}, {"view", "layer_head_map"}, {"overwrite", true}});
    window.command("heads.export", {{"path", path("heads")}, {"strategy", "c"}, {"count", 6}, {"overwrite", true}});
    window.command("trace.save", {{"path", path("a.h5")}, {"overwrite", true}});
    window.command("session.save");
    window.wait({{"/files_busy", false}, {"/workspace/saved", true}});
    window.command("app.screenshot", {{"path", path("window.png")}});
    window.command("app.quit");
    if (window.exit_code() != 0) throw std::runtime_error("it was killed as it ended");
  }
  void save_whole(int kind) const {
    const auto window = start({});
    REQUIRE(window);
    save(*window, kind);
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "state" / "kvscope"))
      CHECK(entry.path().filename().string().find("damaged") == std::string::npos);
  }
  void check_files() const {
    for (const auto& [name, bytes] : files_of(folder_ / "out")) {
      CAPTURE(name);
      if (fs::path(name).filename().string().starts_with('.')) continue;
      if (name.ends_with(".h5")) {
        CHECK(inspect_trace(folder_ / "out" / name).n_runs == 1);
      } else if (name.ends_with(".png")) {
        CHECK(bytes.find("IEND") == bytes.size() - 8);
      } else {
        CHECK((bytes == results_.at(0).at(name) || bytes == results_.at(1).at(name)));
      }
    }
    CHECK(json::parse(read_text(folder_ / "state" / "kvscope" / "workspace" / "workspace.json")).is_object());
  }

  Random& random_;
  Xvfb display_;
  TemporaryFolder folder_;
  std::vector<Bytes> results_;  // in out/, of each policy
  int most_ = 120, n_ = 0, left_ = 0;
};

template <typename Kills>
void kill_often(Kills& kills, int wanted) {
  int done = 0, tries = 0;
  for (; done < wanted && tries < 3 * wanted + 30; ++tries) done += kills.kill_one();
  CHECK(done == wanted);
  WARN(done << " kills left " << kills.left() << " temporary files, which the next save removed");
}

}  // namespace

TEST_CASE("A kill in the midst of a command's save costs no file, and what it leaves goes with the next") {
  Random random(seed());
  CommandKills kills(random);
  int done = 0;
  for (int tries = 0; done < 8 && tries < 80; ++tries) done += kills.kill_one();
  CHECK(done == 8);
}

TEST_CASE("A kill in the midst of the window's saves costs no file, and what it leaves goes with the next") {
  if (skip_without_display()) return;
  Random random(seed());
  WindowKills kills(random);
  kills.kill_one();
  kills.kill_one();
}

TEST_CASE("Random kills in the midst of saves cost no file", "[.slow][save_kills]") {
  const char* value = std::getenv("KVSCOPE_KILLS");
  const int wanted = value ? std::atoi(value) : 500;
  CAPTURE(seed());
  Random random(seed());
  CommandKills commands(random);
  kill_often(commands, wanted - wanted / 8);
  if (skip_without_display()) return;
  WindowKills window(random);
  kill_often(window, wanted / 8);
}
