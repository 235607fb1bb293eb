// What a policy will be on a model with gates: said before it runs, as the run will record it.
#include "engine/core/policy/gates_of_model.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/core/protocol/events.h"
#include "engine/core/support/error.h"

using namespace kvscope;
using Catch::Matchers::Contains;

namespace {

const HeadsOfModel kShape{6, 4, {}};
const std::string kRest = ",read=0,pool=0,drop=0.1,observe=256";

GatesOfModel two_gates() {
  return {.scorers = {{"kvpop_mlstm", GateNumbers{.window = 64, .n_sink = 4, .has_decay = true}},
                      {"sp_kv", GateNumbers{.threshold = 0.9, .strict = true, .window = 32, .n_sink = 2}}},
          .heads = GateNumbers{.window = 20, .n_sink = 3, .share = 0.25}};
}

std::string on(const char* policy) { return policy_on(PolicySpec::parse(policy), kShape, two_gates()).to_string(); }

}  // namespace

TEST_CASE("gates of a model: each policy takes the numbers of the gate that it reads, and what was written stands",
          "[core][policy][gate]") {
  CHECK(on("sp-kv") == "sp-kv:threshold=0.9,strict=1,sinks=2,window=32" + kRest);
  CHECK(on("sp-kv:threshold=0.5") == "sp-kv:threshold=0.5,strict=1,sinks=2,window=32" + kRest);
  CHECK(on("kvpop:keep=50%") == "kvpop:keep=0.5,sinks=4,window=64,decay=learned,stride=1");
  CHECK(on("threshold") == "threshold:threshold=0,strict=0,sinks=4,window=64" + kRest);  // of the first of any kind
  CHECK(on("wg-kv") == PolicySpec::parse("wg-kv").to_string());                          // none is loaded
  CHECK(on("duo") == "duo:full=0.25,count=0,sinks=3,window=20");
  CHECK(on("streaming") == "streaming:sinks=4,window=64");
  // The share that whole layers make, and the gate that only on=threshold reads.
  CHECK_THAT(on("hybrid:heads=a"), Contains("full=0.5,") && Contains("window=128"));
  CHECK_THAT(on("hybrid:heads=a,on=threshold"), Contains("full=0.5,") && Contains("window=64"));
}

TEST_CASE(
    "gates of a model: a scorer that was trained under a pool has one by default, and leaves each head its own where asked",
    "[core][policy][gate]") {
  const GatesOfModel gates{.scorers = {{"kvpop_mlp", GateNumbers{.window = 256, .n_sink = 4, .pool_interval = 32}}},
                           .heads = {}};
  const auto with = [&](const char* policy) { return policy_on(PolicySpec::parse(policy), kShape, gates); };
  CHECK(with("kvpop:keep=25%").to_string() ==
        "kvpop:keep=0.25,sinks=4,window=256,decay=1,stride=1,capacity=pooled,interval=32");
  CHECK(with("kvpop:keep=25%,interval=8").value("interval") == 8);
  const PolicySpec own = with("kvpop:keep=25%,capacity=head");
  CHECK_FALSE(policy_of(own).plan(own, own.geometry(4096)).is_pooled());
  CHECK(own.geometry(4 * 260).top_k == 0);  // nothing is kept free
  CHECK(with("random:keep=25%").value("capacity") == 0);
  CHECK_THROWS_WITH(with("kvpop:budget=290").geometry(4096),
                    Contains("sinks 4 + window 256 + interval 32 = 292 tokens"));
}

TEST_CASE("gates of a model: beside a number that was written stands the gate's own, also where it is the method's",
          "[core][policy][gate]") {
  const auto own = [](const char* policy, const char* parameter) {
    return own_number(PolicySpec::parse(policy), parameter, two_gates());
  };
  CHECK(own("sp-kv:threshold=0.5", "threshold") == 0.9);
  CHECK(own("kvpop:window=16", "window") == 64);
  CHECK(own("hybrid:heads=d,sinks=0", "sinks") == 3);
  CHECK_FALSE(own("sp-kv", "threshold"));             // nobody wrote it
  CHECK_FALSE(own("sp-kv:read=64", "read"));          // no gate says it
  CHECK_FALSE(own("wg-kv:threshold=0.3", "window"));  // no gate is loaded
}

TEST_CASE("gates of a model: where only a run is known, what nobody wrote is as it had it", "[core][policy][gate]") {
  const PolicySpec run = PolicySpec::parse("sp-kv:threshold=0.9,window=32");
  CHECK(policy_after(PolicySpec::parse("sp-kv:sinks=1"), run).to_string() ==
        "sp-kv:threshold=0.9,strict=0,sinks=1,window=32" + kRest);
  CHECK(policy_after(PolicySpec::parse("sp-kv:threshold=0.5"), run).value("threshold") == 0.5);
  CHECK(policy_after(PolicySpec::parse("wg-kv"), run) == PolicySpec::parse("wg-kv"));
}

TEST_CASE("gates of a model: they cross the stream as they are, and an engine may say nothing of them",
          "[core][protocol][gate]") {
  GatesOfModel gates = two_gates();
  gates.scorers[0].numbers->pool_interval = 32;
  const auto load = protocol::done_load(1, ModelInfo(), 0.5, gates);
  const GatesOfModel back = protocol::gates_from_event(load);
  REQUIRE(back.scorers.size() == 2);
  CHECK(back.scorers[1].kind == "sp_kv");
  CHECK(back.scorers[1].numbers->threshold == 0.9);
  CHECK(back.scorers[1].numbers->strict);
  CHECK(back.scorers[0].numbers->has_decay);
  CHECK(back.scorers[0].numbers->pool_interval == 32);
  CHECK(back.heads->share == 0.25);
  CHECK(back.heads->window == 20);
  CHECK(protocol::gates_from_event({{"type", "done"}}).scorers.empty());
  auto bad = load;
  bad["gates"]["scorers"][1]["numbers"]["window"] = -1;
  CHECK_THROWS_AS(protocol::gates_from_event(bad), Error);
  bad = load;
  bad["gates"]["scorers"] = 3;
  CHECK_THROWS_AS(protocol::gates_from_event(bad), Error);
}
