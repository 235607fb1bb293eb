// What a query reads may be said as a share of the run, wherever it is said in tokens.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/policy/policy.h"
#include "engine/core/policy/policy_table.h"
#include "engine/core/support/error.h"

using namespace kvscope;
using Catch::Matchers::Contains;

namespace {

int tokens_read(const char* policy, int n_positions) {
  const PolicySpec spec = PolicySpec::parse(policy);
  return policy_of(spec).plan(spec, spec.geometry(n_positions)).selection.tokens;
}

}  // namespace

TEST_CASE("policy share: read=25% is a quarter of the run's positions, under Quest and under every gate",
          "[core][policy]") {
  CHECK(tokens_read("quest:read=25%", 2048) == 512);
  CHECK(tokens_read("quest:read=0.25", 2048) == 512);
  CHECK(tokens_read("quest:read=29%", 100) == 29);  // the product is 28.999999999999996
  CHECK(tokens_read("quest:read=512", 100) == 512);
  for (const char* policy :
       {"sp-kv:read=12.5%", "wg-kv:read=12.5%", "dms:read=12.5%", "kvzap:read=12.5%", "threshold:read=12.5%"}) {
    INFO(policy);
    CHECK(tokens_read(policy, 800) == 100);
    CHECK(tokens_read(policy, 40) == 5);  // shorter than the window
  }
  CHECK(tokens_read("quest:read=1%", 40) == 1);  // a page is the least that is read
  CHECK(tokens_read("sp-kv", 800) == 0);
}

TEST_CASE("policy share: a share that was written reads back as the same share", "[core][policy]") {
  const PolicySpec spec = PolicySpec::parse("quest:read=33.3%");
  CHECK(spec.value("read") == Approx(0.333));
  CHECK(spec.to_string() == "quest:read=0.333,dense=2,window=64");
  CHECK(PolicySpec::parse(spec.to_string()) == spec);
  CHECK(policy_json(spec, 1000)["parameters"]["read"] == 0.333);
  spec.check();
}

TEST_CASE("policy share: what is no share, or of a parameter that has none, is refused with what may be",
          "[core][policy]") {
  const auto error = [](const char* text) -> std::string {
    try {
      PolicySpec::parse(text);
    } catch (const Error& found) {
      return found.what();
    }
    return "no error";
  };
  for (const char* text : {"quest:read=0%", "quest:read=100%", "quest:read=-5%", "quest:read=150%", "quest:read=%"}) {
    INFO(text);
    CHECK_THAT(error(text),
               Contains("a whole number from 16 to") && Contains("or a share of the run between 0% and 100%"));
  }
  CHECK_THAT(error("quest:window=25%"), Contains("window") && !Contains("share"));
  CHECK_THAT(error("quest:window=0.25"), Contains("a whole number"));
}
