// Runs on their way into a trace while others are decoded.
#include "app/studies/capture/run_writer.h"

#include <catch2/catch.hpp>

#include "tests/app/process.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_run.h"

using namespace kvscope;

namespace {

RunRecord run(int i) {
  RunRecord out = test::random_run(static_cast<std::uint64_t>(i), {.prompt_len = 20, .n_new = 4});
  out.model = test::random_run(0).model;
  return out;
}

}  // namespace

TEST_CASE("Every run that is reported as committed is in the file, at any moment", "[app][capture]") {
  constexpr int kRuns = 60;
  const test::TemporaryFolder folder;
  const auto path = folder / "t.h5";
  TraceWriter trace(path, run(0).model, {.max_runs = kRuns, .max_positions = 30});
  int n_reports = 0;
  {
    app::RunWriter writer(trace);
    int reported = 0;
    for (int i = 0; i < kRuns; ++i) {
      writer.add(run(i));
      const int committed = writer.committed();
      n_reports += committed != reported;
      reported = committed;
      REQUIRE(inspect_trace(path).n_runs >= committed);
    }
    writer.wait();
    CHECK(writer.committed() == kRuns);
    CHECK(inspect_trace(path).n_runs == kRuns);
  }
  INFO(n_reports << " of " << kRuns << " runs were seen to be committed one by one");
  for (int i = 0; i < kRuns; ++i) REQUIRE(test::run_difference(load_trace(path, i), run(i)) == "");
}

TEST_CASE("Runs before one that cannot be written are committed, and what is added after it is refused",
          "[app][capture]") {
  const test::TemporaryFolder folder;
  const auto path = folder / "t.h5";
  TraceWriter trace(path, run(0).model, {.max_runs = 3, .max_positions = 30});
  {
    app::RunWriter writer(trace);
    for (int i = 0; i < 3; ++i) writer.add(run(i));
    bool refused = false;
    try {
      writer.add(run(3));  // there is no room for a fourth
      writer.wait();
    } catch (const Error&) {
      refused = true;
    }
    CHECK(refused);
    CHECK_THROWS_AS(writer.add(run(0)), Error);
  }
  CHECK(inspect_trace(path).n_runs == 3);
}
