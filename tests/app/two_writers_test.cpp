// Two of each writing command at once, on one file: one works and the other is refused, or both made the same.

#include <algorithm>
#include <future>
#include <thread>

#include "tests/app/capture_support.h"
#include "tests/app/writers.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

/// A fake engine that takes its time, so that the second command comes while the first writes.
Words slowed(Words words) {
  for (std::string& word : words) {
    if (word == fake_engine().string()) word += " --slow 60";
  }
  return words;
}

void check_refusal(const Result& result) {
  INFO(result.err);
  CHECK((result.exit_code == 2 || result.exit_code == 3));
  const auto begin = result.err.rfind("error: ");
  REQUIRE(begin != std::string::npos);
  CHECK(count_lines(result.err.substr(begin)) == 1);
  bool says_why = false;
  for (const char* why : {"another process", "it exists", "exists; hint", "is there"})
    says_why = says_why || result.err.find(why, begin) != std::string::npos;
  CHECK(says_why);
}

bool replaces(const Words& words) {
  return std::ranges::count(words, "--overwrite") + std::ranges::count(words, "--resume") > 0;
}

}  // namespace

TEST_CASE("Of two of each writing command on one file one works, and the other is refused or makes the same",
          "[two_writers]") {
  WritersFolder good;
  for (const Writer& writer : writers()) {
    CAPTURE(writer.name);
    const Bytes& wanted = good.result_of(writer);
    for (int round = 0; round < 2; ++round) {
      const TemporaryFolder folder;
      good.copy_to(folder);
      const Bytes before = files_of(folder.path());
      const Words words = round == 0 ? writer.words : slowed(writer.words);
      auto other = std::async(std::launch::async, [&] { return WritersFolder::run(words, folder.path(), {}); });
      const Result results[] = {WritersFolder::run(words, folder.path(), {}), other.get()};
      int n_done = 0;
      for (const Result& result : results) {
        n_done += result.exit_code == 0;
        if (result.exit_code != 0) check_refusal(result);
      }
      CAPTURE(results[0].err, results[1].err);
      CHECK(n_done >= 1);
      WritersFolder::check_files(before, folder.path(), wanted);
      CHECK(files_of(folder.path()).size() == wanted.size());
      const bool same_bytes = writer.name == std::string("figure") || writer.name == std::string("eval");
      if (!replaces(writer.words) && !same_bytes) CHECK(n_done == 1);
    }
  }
}

TEST_CASE("Of two evaluations on one file the second is refused with the process that writes, and no answer is doubled",
          "[two_writers]") {
  const TemporaryFolder folder;
  const std::string study = (folder / "e.h5").string(), answers = study + ".answers";
  const auto eval = [&](const std::string& slow) {
    return Words{test::kvscope().string(),
                 "eval",
                 sample_model().string(),
                 "--tasks",
                 "needle",
                 "--policies",
                 "tova:keep=50%",
                 "--questions",
                 "4",
                 "-o",
                 study,
                 "--engine",
                 fake_engine().string() + slow,
                 "--quiet",
                 "--json"};
  };
  auto first = std::async(std::launch::async, [&] { return test::run({.argv = eval(" --slow 300")}); });
  while (!fs::exists(answers) || fs::file_size(answers) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const Result second = test::run({.argv = eval("")});
  check_error_line(second, 3, "e.h5.answers: another process is writing it (process ");
  CHECK(second.err.find("hint: wait until it ends, or give another -o") != std::string::npos);
  REQUIRE(first.get().exit_code == 0);
  CHECK(count_lines(read_text(answers)) == 1 + 2 * 4);
  const Result third = test::run({.argv = eval("")});
  REQUIRE(third.exit_code == 0);
  const json table = json::parse(third.out);
  for (const json& row : table["rows"]) CHECK(row["n"] == 4);
}
