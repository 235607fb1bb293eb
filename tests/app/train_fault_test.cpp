// Training on a disk that fails at the N-th call: one line, exit code 3, and --resume goes on from what is whole to the
// bytes of a training that nothing disturbed.

#include <future>
#include <nlohmann/json.hpp>

#include "engine/core/trace/study_file.h"
#include "tests/app/capture_support.h"
#include "tests/app/preload.h"
#include "tests/app/small_recipe.h"
#include "tests/app/writers.h"
#include "tests/support/folders.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

Result train(const fs::path& folder, Words more, std::map<std::string, std::string> environment = {}) {
  const fs::path text = in_source("samples/prompts/heldout.txt");
  Words argv = {test::kvscope().string(),
                "train",
                "r.json",
                "--base",
                sample_model().string(),
                "--data",
                text.string(),
                "-o",
                "out",
                "--device",
                "cpu",
                "--quiet"};
  argv.insert(argv.end(), more.begin(), more.end());
  return test::run({.argv = argv, .environment = std::move(environment), .folder = folder});
}

void write_recipe(const fs::path& folder) { std::ofstream(folder / "r.json") << small_recipe(2); }

/// The losses of its curve, a study beside the gate.
std::vector<double> losses_of(const fs::path& folder) {
  return read_study(test::kvscope(), folder / "out/wg-kv-0.5_loss.h5").numbers("loss_all", "");
}

/// The gate that came of it.
std::string gate_of(const fs::path& folder) { return read_text(folder / "out/wg-kv-0.5/gate.safetensors"); }

}  // namespace

TEST_CASE("A disk that fails while a training writes costs one line, and it goes on from what is whole",
          "[write_fault]") {
  const TemporaryFolder good;
  write_recipe(good.path());
  REQUIRE(train(good.path(), {}).exit_code == 0);
  const std::string whole = gate_of(good.path());
  const std::vector<double> losses = losses_of(good.path());
  REQUIRE(losses.size() == 2);
  int faults = 0;
  bool came = true;
  constexpr const char* kHow[] = {"ENOSPC", "EIO", "EDQUOT"};
  for (int at = 1; came; at += 1 + at / 2) {
    const TemporaryFolder folder, elsewhere;
    write_recipe(folder.path());
    const fs::path mark = elsewhere / "mark";
    const Result result = train(folder.path(), {},
                                {{"LD_PRELOAD", preload(fault_library("writes"))},
                                 {"KVSCOPE_FAIL_FOLDER", folder.path().string()},
                                 {"KVSCOPE_FAIL_AT", std::to_string(at)},
                                 {"KVSCOPE_FAIL_HOW", kHow[faults % 3]},
                                 {"KVSCOPE_FAIL_MARK", mark.string()}});
    came = fs::exists(mark);
    CAPTURE(at, kHow[faults % 3], result.exit_code, result.err);
    if (!came) {
      CHECK(result.exit_code == 0);
      break;
    }
    ++faults;
    check_error_line(result, 3, "");
    const bool something = fs::exists(folder / "out") && !fs::is_empty(folder / "out");
    const Result again = train(folder.path(), something ? Words{"--resume"} : Words{});
    INFO(again.err);
    CHECK(again.exit_code == 0);
    CHECK(gate_of(folder.path()) == whole);
    CHECK(losses_of(folder.path()) == losses);
  }
  CHECK(faults >= 4);
}

TEST_CASE("Of two trainings in one folder one works, and the other is refused", "[two_writers]") {
  const TemporaryFolder folder;
  write_recipe(folder.path());
  const Words more = GENERATE(Words{}, Words{"--overwrite"}, Words{"--resume"});
  auto other = std::async(std::launch::async, [&] { return train(folder.path(), more); });
  const Result results[] = {train(folder.path(), more), other.get()};
  CAPTURE(results[0].err, results[1].err);
  int n_done = 0;
  for (const Result& result : results) {
    n_done += result.exit_code == 0;
    if (result.exit_code != 0) CHECK((result.exit_code == 2 || result.exit_code == 3));
    if (result.exit_code == 3) check_error_line(result, 3, "out: another process is writing it");
  }
  CHECK(n_done >= 1);
  CHECK_FALSE(gate_of(folder.path()).empty());
}
