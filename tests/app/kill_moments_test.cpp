// kill -9 of a capture, of its engine, of both, at random moments and in 1 and 4 shards, with --resume started too early
// and twice: each prompt is there once, with what an undisturbed capture has.
//
//   KVSCOPE_KILLS=500 app_tests "[kill_moments]"     500 is the default; KVSCOPE_SEED another series

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "engine/core/support/random.h"
#include "tests/app/capture_support.h"

extern char** environ;

using namespace kvscope;
using namespace kvscope::test;

namespace {

constexpr int kPromptsOfList = 16;

int number_of(const char* variable, int fallback) {
  const char* value = std::getenv(variable);
  return value ? std::atoi(value) : fallback;
}

void sleep_seconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// A capture that goes on by itself, in a process group of its own.
class Going {
 public:
  Going(std::vector<std::string> words, const fs::path& said) : said_(said) {
    words.insert(words.begin(), test::kvscope().string());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    REQUIRE(::posix_spawn(&pid_, argv[0], &actions, &attributes, argv.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  /// False: there is none (yet).
  bool kill_engine() const {
    std::ifstream children("/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children");
    bool any = false;
    for (pid_t child = 0; children >> child; any = true) ::kill(-child, SIGKILL), ::kill(child, SIGKILL);
    return any;
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  /// Its exit code, -1 if it was killed. It must end by itself within a minute.
  int wait() const {
    int status = 0;
    for (int i = 0; i < 6000; ++i) {
      if (::waitpid(pid_, &status, WNOHANG) == pid_) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      sleep_seconds(0.01);
    }
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
    FAIL("a capture that does not end");
    return -1;
  }
  std::string said() const { return read_text(said_); }

 private:
  fs::path said_;
  pid_t pid_ = -1;
};

class Kills {
 public:
  Kills(int n_shards, std::uint64_t seed) : n_shards_(n_shards), random_(seed) {
    write_prompts(folder_, kPromptsOfList);
    whole_ = Capture{.folder = folder_, .name = "whole.h5", .engine_options = " --slow 2"}.run();
    INFO(whole_.err);
    REQUIRE(whole_.exit_code == 0);
    const TraceInfo info = inspect_trace(folder_ / "whole.h5");
    for (int i = 0; i < info.n_runs; ++i) runs_.push_back(timeless(load_trace(folder_ / "whole.h5", i)));
  }

  /// One kill of the capture of a shard, and what belongs to it.
  void kill_one(int shard) {
    const Going capture = start(shard, 0);
    sleep_seconds(whole_.seconds / n_shards_ * 1.2 * static_cast<double>(random_.below(1000)) / 1000);
    std::optional<Going> early;
    if (random_.below(3) == 0) early.emplace(start(shard, 1));
    const auto what = random_.below(3);
    if (what != 0) ++engines_, capture.kill_engine();
    if (what != 1) capture.kill();
    check_end(capture);
    if (early) check_end(*early);
    if (random_.below(3) == 0) {
      const Going one = start(shard, 2), other = start(shard, 3);
      check_end(one);
      check_end(other);
    }
    check(shard);
  }

  bool is_whole(int shard) const {
    const fs::path path = file(shard);
    if (!fs::exists(path)) return false;
    const TraceInfo info = inspect_trace(path);
    return info.status == "complete" && info.n_runs == kPromptsOfList / n_shards_;  // complete: also what was stopped
  }
  void finish(int shard) {
    for (int i = 0; i < 20 && !is_whole(shard); ++i) check_end(start(shard, 0));
    CHECK(is_whole(shard));
    check(shard);
  }
  /// All shards together are the undisturbed capture; then from the beginning.
  void check_all() {
    std::vector<std::string> merge = {"merge"};
    for (int shard = 0; shard < n_shards_; ++shard) merge.push_back(file(shard).string());
    merge.insert(merge.end(), {"-o", (folder_ / "all.h5").string(), "--quiet"});
    const Result merged = n_shards_ > 1 ? kvscope_run(merge) : Result{.exit_code = 0};
    INFO(merged.err);
    REQUIRE(merged.exit_code == 0);
    check_same_trace(n_shards_ > 1 ? folder_ / "all.h5" : file(0), folder_ / "whole.h5");
    fs::remove(folder_ / "all.h5");
    for (int shard = 0; shard < n_shards_; ++shard) fs::remove(file(shard));
    committed_.clear();
    for (int who = 0; who < 4; ++who) fs::remove(folder_ / ("said-" + std::to_string(who)));
    CHECK(files_in(folder_.path()) == 2);  // prompts and whole.h5: nothing stray
  }
  int engines() const { return engines_; }

 private:
  fs::path file(int shard) const { return folder_ / ("shard-" + std::to_string(shard) + ".h5"); }
  Going start(int shard, int who) const {
    const Capture capture{.folder = folder_,
                          .name = file(shard).filename().string(),
                          .options = {"--resume", "--shard", std::to_string(shard) + "/" + std::to_string(n_shards_)},
                          .engine_options = " --slow 2"};
    return Going(capture.words(), folder_ / ("said-" + std::to_string(who)));
  }
  static void check_end(const Going& going) {
    const int code = going.wait();
    INFO("exit " << code << ": " << going.said());
    CHECK((code == -1 || code == 0 || code == 3));  // 3: its engine is gone, or another capture has the file
    CHECK(going.said().find("internal") == std::string::npos);
  }
  /// What is committed: no prompt twice, each as undisturbed, none lost that was there before.
  void check(int shard) {
    if (!fs::exists(file(shard))) return;
    const TraceInfo info = inspect_trace(file(shard));
    std::set<std::int32_t> seen;
    for (int i = 0; i < info.n_runs; ++i) {
      const std::int32_t prompt = info.prompt_index[static_cast<std::size_t>(i)];
      CAPTURE(shard, i, prompt);
      CHECK(seen.insert(prompt).second);
      CHECK(prompt % n_shards_ == shard);
      CHECK(run_difference(timeless(load_trace(file(shard), i)), runs_.at(static_cast<std::size_t>(prompt))) == "");
    }
    for (const auto prompt : committed_[shard]) CHECK((seen.contains(prompt)));
    committed_[shard] = seen;
  }

  TemporaryFolder folder_;
  int n_shards_;
  Random random_;
  Result whole_;
  std::vector<RunRecord> runs_;
  std::map<int, std::set<std::int32_t>> committed_;
  int engines_ = 0;
};

}  // namespace

TEST_CASE("Random kills of captures and their engines lose and double nothing", "[.slow][kill_moments]") {
  const int wanted = number_of("KVSCOPE_KILLS", 500);
  const auto seed = static_cast<std::uint64_t>(number_of("KVSCOPE_SEED", 20261122));
  for (const int n_shards : {1, 4}) {
    Kills kills(n_shards, seed + static_cast<std::uint64_t>(n_shards));
    int done = 0, captures = 0;
    for (; done < wanted / 2; ++captures) {
      for (int shard = 0; shard < n_shards; ++shard) {
        for (; done < wanted / 2 && !kills.is_whole(shard); ++done) kills.kill_one(shard);
        kills.finish(shard);
      }
      kills.check_all();
    }
    WARN(n_shards << " shards: " << done << " kills (" << kills.engines() << " of the engine), " << captures
                  << " captures");
    CHECK(done == wanted / 2);
  }
}
