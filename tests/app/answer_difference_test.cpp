// The answer difference in the program: the commands from difference to difference, its export, and its preset.

#include "engine/core/study/measure/answer_difference.h"

#include <catch2/catch.hpp>
#include <string>

#include "tests/app/exported_view.h"
#include "tests/app/opened_runs.h"
#include "tests/app/process.h"
#include "tests/app/program.h"
#include "tests/support/parted_runs.h"

using namespace kvscope;
using namespace kvscope::app;

namespace {

/// A, and B whose answer diverges from it.
std::string open_pair(test::Program& program, const test::TemporaryFolder& folder) {
  const std::string path =
      test::open_runs(program, folder, {test::random_run(3, {.policy = "full"}), test::parted_run()});
  program.session.runs().show(1, 2);
  return path;
}

void check_same_files(const test::TemporaryFolder& folder, const char* first, const char* again) {
  for (const char* ending : {".svg", ".figure.csv"})
    CHECK((test::read_text(folder / (first + std::string(ending))) ==
           test::read_text(folder / (again + std::string(ending)))));
}

}  // namespace

TEST_CASE("The commands go from difference to difference and around the end, and need two answers") {
  test::Program program;
  const test::TemporaryFolder folder;
  open_pair(program, folder);
  const RunRecord &a = *program.session.runs().shown_a()->run, &b = *program.session.runs().shown_b()->run;
  const AnswerDifference found = answer_difference(a, b);
  const auto n = found.differences.size();
  REQUIRE(n > 2);
  const views::Selection& selection = program.session.selection();
  program.session.selection().q.reset();
  for (std::size_t i = 0; i <= n; ++i) {
    program.run("difference.next");
    const AnswerPart& part = found.differences[i % n];
    CHECK(selection.q == query_of(part));
    if (part.n_a > 0) CHECK(selection.token == part.a);
  }
  program.run("difference.previous");
  CHECK(selection.q == query_of(found.differences.back()));
  program.run("difference.previous");
  CHECK(selection.q == query_of(found.differences[n - 2]));
  CHECK(program.commands.find(Shortcut::parse("Alt+Down"))->id == "difference.next");
  CHECK(program.commands.find(Shortcut::parse("Alt+Up"))->id == "difference.previous");
  program.session.runs().show(1, 0);
  CHECK_FALSE(program.commands.enabled(*program.commands.find("difference.next")));
}

TEST_CASE("The answer difference that the window exports is what the command line makes of its recipe, byte for byte") {
  test::Program program;
  const test::TemporaryFolder folder;
  open_pair(program, folder);
  if (GENERATE(false, true)) program.session.selection().q = 145;
  const std::string csv = test::check_export(program, folder, "answer_difference");
  CHECK(csv.starts_with("part,side,position_a,position_b,token_id,token,logprob_a,logprob_b,heads,mass,layer,kv_head"));
  for (const char* row : {"\ntext,same,", "\ntext,a,", "\ntext,b,", "\nlost_b,,"})
    CHECK(csv.find(row) != std::string::npos);
}

TEST_CASE("The preset takes two traces or one of two runs, and refuses others in a line") {
  test::Program program;
  const test::TemporaryFolder folder;
  const std::string pair = open_pair(program, folder), a = (folder / "a.h5").string(), b = (folder / "b.h5").string();
  test::write_runs(a, {test::random_run(3, {.policy = "full"})});
  test::write_runs(b, {test::parted_run()});
  const auto draw = [&](std::vector<std::string> traces, const std::string& name) {
    std::vector<std::string> words = {"figure", "--preset", "run-difference", "-o", (folder / name).string()};
    words.insert(words.end(), traces.begin(), traces.end());
    return test::kvscope_run(words);
  };
  CHECK(draw({pair}, "one.svg").exit_code == 0);
  CHECK(draw({a, b}, "two.svg").exit_code == 0);
  check_same_files(folder, "one", "two");
  const auto single = draw({a}, "none.svg");
  CHECK(single.exit_code == 2);
  CHECK_THAT(single.err, Catch::Contains("exactly two"));
  CHECK(draw({a, b, a}, "none.svg").exit_code == 2);
}
