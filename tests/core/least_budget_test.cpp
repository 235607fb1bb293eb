#include "engine/core/policy/least_budget.h"

#include <catch2/catch.hpp>

#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"

using namespace kvscope;

namespace {

bool runs_with(PolicySpec spec, int tokens, int n_positions) {
  spec.budget = {BudgetSpec::Kind::tokens, static_cast<double>(tokens)};
  try {
    spec.geometry(n_positions);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("The least budget of every policy is the first that its geometry takes", "[policy]") {
  int with_budget = 0;
  for (const PolicyInfo& info : policy_list()) {
    const PolicySpec spec = PolicySpec::parse(info.name);
    for (const int n_positions : {1, 125, 4096}) {
      CAPTURE(info.name, n_positions);
      int first = 1;
      while (first < 2000 && !runs_with(spec, first, n_positions)) ++first;
      const auto least = least_budget(spec, n_positions);
      CHECK(least.has_value() == info.has_budget);
      if (least) CHECK(*least == first);
      with_budget += least.has_value();
    }
  }
  CHECK(with_budget > 12);
}

TEST_CASE("A share that leaves less than sinks and window take is raised to them, and a number of tokens is not",
          "[policy]") {
  const auto raised = raised_budget(PolicySpec::parse("kvpop:keep=25%,sinks=4,window=64"), 125);
  REQUIRE(raised);
  CHECK(raised->wanted == 31);
  CHECK(raised->least == 68);
  CHECK(describe_raised(*raised, 125) == "25 % of 125 = 31 tokens, raised to the minimum of 68 (sinks + window)");
  const PolicySpec pool = PolicySpec::parse("kvpop:keep=25%,sinks=4,window=64,capacity=pooled,interval=32");
  CHECK(describe_raised(*raised_budget(pool, 200), 200) ==
        "25 % of 200 = 50 tokens, raised to the minimum of 100 (sinks + window + interval)");
  CHECK_FALSE(raised_budget(PolicySpec::parse("kvpop:keep=25%,sinks=4,window=64"), 400));
  CHECK_FALSE(raised_budget(PolicySpec::parse("kvpop:budget=31,sinks=4,window=64"), 125));
  CHECK_FALSE(raised_budget(PolicySpec::parse("full"), 125));
  CHECK_FALSE(raised_budget(PolicySpec::parse("kvpop:keep=25%"), 0));  // nobody knows how long the run will be
  const auto shared = raised_budget(PolicySpec::parse("h2o:compression=8x"), 64);
  REQUIRE(shared);
  CHECK_THAT(describe_raised(*shared, 64),
             Catch::StartsWith("8x compression of 64 = 8 tokens, raised to the minimum of "));
  CHECK(runs_with(PolicySpec::parse("h2o"), shared->least, 64));
  CHECK_FALSE(runs_with(PolicySpec::parse("h2o"), shared->least - 1, 64));
}
