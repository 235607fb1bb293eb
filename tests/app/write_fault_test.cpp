// Every command that writes, on a disk that fails at the N-th call: the error is said, what was there stays, nothing
// strange is left, and once there is space again the same command succeeds. Some of the calls here; all of them with
// app_tests "[write_fault_all]", which takes minutes; KVSCOPE_WRITERS=capture: only commands with this in their name.

#include <map>
#include <set>

#include "tests/app/capture_support.h"
#include "tests/app/preload.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

using Words = std::vector<std::string>;
using Bytes = std::map<std::string, std::string>;  // of every file in a folder, by name

Bytes files_of(const fs::path& folder) {
  Bytes files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = read_text(entry.path());
  return files;
}

/// A command line, in a folder with p.jsonl, whole.h5 (its capture), s0.h5 and s1.h5 (the same in shards), partial.h5
/// (the first runs of it) and old files of the names that --overwrite replaces.
struct Writer {
  const char* name;
  Words words;
  Words again = {};  // added when it is tried once more
};

Words engine_words(Words words) {
  words.insert(words.end(), {"--engine", fake_engine().string(), "--max-tokens", "3", "--policy",
                             "kvpop:budget=12,sinks=2,window=4", "--quiet"});
  return words;
}

std::vector<Writer> writers() {
  const std::string model = sample_model().string();
  return {
      {"export .csv", {"export", "whole.h5", "-o", "new.csv"}},
      {"export .npz", {"export", "whole.h5", "-o", "old.npz", "--overwrite"}},
      {"figure", {"figure", "--preset", "kvpop-fig6", "whole.h5", "-o", "new.svg"}},
      {"figure --overwrite", {"figure", "--preset", "kvpop-fig6", "whole.h5", "-o", "old.svg", "--overwrite"}},
      {"heads", {"heads", "whole.h5", "--strategy", "b", "--export", "duo:heads"}},
      {"gate convert", {"gate", "convert", model, "-o", "gate"}},
      {"gate convert --overwrite", {"gate", "convert", model, "-o", "old-gate", "--overwrite"}},
      {"merge", {"merge", "s0.h5", "s1.h5", "-o", "new.h5", "--quiet"}},
      {"merge --copy", {"merge", "s0.h5", "s1.h5", "-o", "old.h5", "--copy", "--overwrite", "--quiet"}},
      {"run --trace", engine_words({"run", model, "--prompt", "one two", "--trace", "new.h5"})},
      {"run --trace --overwrite", engine_words({"run", model, "--prompt", "x", "--trace", "old.h5", "--overwrite"})},
      {"capture", engine_words({"capture", model, "p.jsonl", "-o", "new.h5"}), {"--resume"}},
      {"capture --overwrite", engine_words({"capture", model, "p.jsonl", "-o", "old.h5", "--overwrite"})},
      {"capture --resume", engine_words({"capture", model, "p.jsonl", "-o", "partial.h5", "--resume"})},
  };
}

void prepare(const TemporaryFolder& folder) {
  write_prompts(folder, 3);
  const auto capture = [&](const char* to, Words more, const char* engine = "") {
    Capture c{folder, to, {"--quiet"}, engine, 3};
    c.options.insert(c.options.end(), more.begin(), more.end());
    return c.run().exit_code;
  };
  REQUIRE(capture("whole.h5", {}) == 0);
  REQUIRE(capture("s0.h5", {"--shard", "0/2"}) == 0);
  REQUIRE(capture("s1.h5", {"--shard", "1/2"}) == 0);
  const RunRecord first = load_trace(folder / "whole.h5", 0);
  const TraceInfo info = inspect_trace(folder / "whole.h5");
  TraceWriter(folder / "partial.h5", first.model, {.max_runs = 3, .max_positions = 60, .capture = info.capture})
      .add(first);
  fs::copy_file(folder / "s0.h5", folder / "old.h5");
  for (const char* name : {"old.svg", "old.csv", "old.npz", "old.json"}) std::ofstream(folder / name) << name;
  REQUIRE(
      kvscope_run({"gate", "convert", sample_model().string(), "-o", (folder / "old-gate").string(), "--sinks", "9"})
          .exit_code == 0);
}

struct Fault {
  std::string how;
  int at = 0;
};

class Disk {
 public:
  Disk() { prepare(good_); }
  /// In a folder of its own, as prepared; whether the fault came.
  bool try_out(const Writer& writer, const Fault& fault) {
    const TemporaryFolder folder, elsewhere;
    fs::copy(good_.path(), folder.path(), fs::copy_options::recursive);
    const Bytes before = files_of(folder.path());
    const fs::path mark = elsewhere / "mark";
    const Result result = run(writer.words, folder.path(),
                              {{"LD_PRELOAD", preload(KVSCOPE_FAIL_WRITES)},
                               {"KVSCOPE_FAIL_FOLDER", folder.path().string()},
                               {"KVSCOPE_FAIL_AT", std::to_string(fault.at)},
                               {"KVSCOPE_FAIL_HOW", fault.how},
                               {"KVSCOPE_FAIL_MARK", mark.string()}});
    CAPTURE(writer.name, fault.how, fault.at, result.err, result.exit_code);
    const bool came = fs::exists(mark);
    if (!came || fault.how == "short") {
      CHECK(result.exit_code == 0);
      return came;
    }
    if (result.exit_code == 0) {
      // HDF5 writes its superblock once more when it closes a file whose every byte is on disk.
      check_files(before, folder.path(), result_of(writer));
      CHECK(files_of(folder.path()).size() == result_of(writer).size());
      return true;
    }
    check_error_line(result, 3, "");
    check_files(before, folder.path(), result_of(writer));
    Words again = writer.words;
    again.insert(again.end(), writer.again.begin(), writer.again.end());
    if (!fs::exists(folder / "new.h5")) again = writer.words;
    const Result second = run(again, folder.path(), {});
    INFO(second.err);
    CHECK(second.exit_code == 0);
    return true;
  }

 private:
  Result run(const Words& words, const fs::path& folder, std::map<std::string, std::string> environment) const {
    Words argv = {test::kvscope().string()};
    argv.insert(argv.end(), words.begin(), words.end());
    return test::run({.argv = argv, .environment = std::move(environment), .folder = folder});
  }
  /// What the command makes where nothing fails.
  const Bytes& result_of(const Writer& writer) {
    Bytes& files = results_[writer.name];
    if (!files.empty()) return files;
    const TemporaryFolder folder;
    fs::copy(good_.path(), folder.path(), fs::copy_options::recursive);
    CHECK(run(writer.words, folder.path(), {}).exit_code == 0);
    return files = files_of(folder.path());
  }
  /// Old or new, whole; of a trace, what its reader takes.
  static void check_files(const Bytes& before, const fs::path& folder, const Bytes& result) {
    const Bytes now = files_of(folder);
    for (const auto& [name, bytes] : before) {
      CAPTURE(name);
      CHECK(now.contains(name));
    }
    for (const auto& [name, bytes] : now) {
      CAPTURE(name);
      CHECK(result.contains(name));  // no other name than those of a success
      const auto old = before.find(name);
      if (old != before.end() && old->second == bytes) continue;
      const bool is_trace = name.ends_with(".h5");
      if (is_trace) {
        CHECK(inspect_trace(folder / name).n_runs >= (name == "partial.h5" ? 1 : 0));
      } else {
        CHECK(result.at(name) == bytes);
      }
    }
  }

  TemporaryFolder good_;
  std::map<std::string, Bytes> results_;
};

}  // namespace

TEST_CASE("A disk that fails at some call costs no file that was there", "[write_fault]") {
  Disk disk;
  for (const Writer& writer : writers()) {
    // Growing steps: every kind of call is met.
    int faults = 0;
    constexpr const char* kHow[] = {"ENOSPC", "EIO", "EDQUOT", "ENOSPC-once"};
    for (int at = 1; disk.try_out(writer, {kHow[faults % 4], at}); at += 1 + at / 2) ++faults;
    CAPTURE(writer.name);
    CHECK(faults >= 3);
  }
}

TEST_CASE("A disk that fails at any call costs no file that was there", "[.slow][write_fault_all]") {
  Disk disk;
  const char* only = std::getenv("KVSCOPE_WRITERS");
  int faults = 0;
  for (const Writer& writer : writers()) {
    if (only && std::string(writer.name).find(only) == std::string::npos) continue;
    const int before = faults;
    for (const char* how : {"ENOSPC", "ENOSPC-once", "EIO", "EIO-once", "EDQUOT", "short"})
      for (int at = 1; disk.try_out(writer, {how, at}); ++at) ++faults;
    WARN(writer.name << ": " << faults - before << " faults");
  }
  CHECK((only || faults >= 400));
}
