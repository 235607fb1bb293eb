// What an engine says that it can do, and what is refused by it.

#include "engine/core/protocol/engine_offer.h"

#include <catch2/catch.hpp>

#include "tests/support/declarations.h"

using namespace kvscope;
using namespace kvscope::test;
using Catch::Matchers::Contains;
using nlohmann::json;

TEST_CASE("An engine's offer is read, printed and held against requests", "[core][declared]") {
  json hello = {{"type", "hello"}, {"version", 2}};
  const protocol::EngineOffer none = protocol::offer_of_hello(hello);
  CHECK((none.name.empty() && !none.serves && none.policies.empty()));
  const RunRequest run{.prompt = "a", .policy = PolicySpec::parse("h2o"), .output_error = true};
  CHECK(protocol::why_not(none, run).empty());

  hello.update({{"name", "test.engine 1"},
                {"serves", {"run", "later"}},
                {"policies", {declared_json("t.offer", "Offer (test)", "top_k")}},
                {"builtin_policies", {"full", "h2o"}},
                {"default_policy", "t.offer:keep=50%"},
                {"runs_at_once", 4},
                {"gpus", 2}});
  const protocol::EngineOffer offer = protocol::offer_of_hello(hello);
  json again = protocol::to_json(offer);
  again["type"] = "hello";
  CHECK(protocol::offer_of_hello(again) == offer);
  CHECK(offer.recorder() == "test.engine 1");
  CHECK(none.runs_at_once == 1);
  CHECK(offer.runs_at_once == 4);
  CHECK((!none.gpus && offer.gpus == 2));
  CHECK(protocol::why_not(offer, run) == "The engine (test.engine 1) cannot compute the oracle.");
  CHECK(protocol::why_not(offer, protocol::fitted(offer, run)) ==
        "The engine (test.engine 1) cannot measure the output error.");
  CHECK(protocol::why_not(offer, protocol::JobRequest{.job = "eval"}) ==
        "The engine (test.engine 1) cannot run evaluations.");
  CHECK(protocol::why_not(offer, protocol::LoadRequest{}).empty());
  CHECK(protocol::why_no_policy(offer, PolicySpec::parse("t.offer")).empty());
  CHECK(protocol::why_no_policy(offer, PolicySpec::parse("kvpop")) ==
        "The engine (test.engine 1) cannot run KVScope's policy kvpop.");
  const PolicySpec old = PolicySpec::parse("t.offer");
  json newer = declared_json("t.offer", "Offer, newer (test)", "top_k");
  hello["policies"] = json::array({newer});
  CHECK(protocol::why_no_policy(protocol::offer_of_hello(hello), old) ==
        "The engine (test.engine 1) declares another version of t.offer.");

  const json done = {
      {"type", "done"}, {"builtin_policies", json::array()}, {"local_layers", {{{"layer", 1}, {"window", 64}}}}};
  const protocol::EngineOffer loaded = protocol::offer_of_load(offer, done, 2);
  CHECK(loaded.policies == offer.policies);
  CHECK(loaded.runs_at_once == 4);
  CHECK(protocol::offer_of_load(offer, {{"type", "done"}, {"runs_at_once", 2}}, 2).runs_at_once == 2);
  CHECK_THROWS_WITH(protocol::offer_of_load(offer, {{"type", "done"}, {"runs_at_once", 0}}, 2),
                    Contains("runs_at_once"));
  CHECK_FALSE(loaded.runs(*find_policy("full")));
  CHECK(loaded.local_layers == std::vector<protocol::LocalLayer>{{1, 64}});
  CHECK_THROWS_WITH(
      protocol::offer_of_load(offer, {{"type", "done"}, {"local_layers", {{{"layer", 2}, {"window", 1}}}}}, 2),
      Contains("layer"));
  const protocol::EngineOffer ours = protocol::own_offer(8);
  CHECK(ours.runs_at_once == 8);
  CHECK(ours.recorder().empty());
  for (const protocol::Service& service : protocol::services()) CHECK(ours.does(service.word));
}
