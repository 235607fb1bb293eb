// Masses that a run may be told of, and that a trace may hold.
#include <catch2/catch.hpp>

#include "engine/core/record/assemble.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"
#include "tests/core/trace_support.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Matchers::Contains;

namespace {

/// A run that goes on, and the oracle's last word on it, in which one mass is `mass`.
std::pair<RunRecord, OracleFacts> told(const char* oracle, float mass) {
  RunRecord run = random_run(3);
  OracleFacts facts{.horizon = run.n_tokens(),
                    .recall = std::vector<float>(6, 0.5f),
                    .final = true,
                    .future_mass = run.future_mass,
                    .future = {}};
  facts.future_mass.row(1, 2)[40] = mass;
  run.oracle = OracleSpec::parse(oracle);
  run.future_mass = HeadSeries<float>();
  run.future = FutureKinds();
  run.status = RunStatus::running;
  return {std::move(run), std::move(facts)};
}

}  // namespace

// C3: exit code 2, "future_mass: 1.105464; expected 0 to 1", after the answer was decoded.
TEST_CASE("oracle facts: over the kept keys alone an evicted token's mass may exceed 1, and the run is kept",
          "[core][oracle]") {
  auto [run, facts] = told("lse=sparse,kinds=one", 1.105464f);
  apply(run, facts);
  CHECK(run.future_mass.row(1, 2)[40] == 1.105464f);
  finish_run(run, RunStatus::complete);
  const ScratchFolder folder;
  save_trace(folder / "t.h5", run, false);
  CHECK(run_difference(load_trace(folder / "t.h5", 0), run) == "");
}

TEST_CASE("oracle facts: over all keys a mass above 1 is no mass, and is refused", "[core][oracle]") {
  auto [run, facts] = told("kinds=one", 1.105464f);
  CHECK_THROWS_WITH(apply(run, facts), Contains("1.105") && Contains("0 to 1"));
}
