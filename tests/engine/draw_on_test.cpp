// A run that was cut off and goes on is the run that was never cut.
#include <algorithm>

#include "engine/decode/run.h"
#include "tests/engine/gated_model.h"
#include "tests/support/random_run.h"
#include "tests/support/torch_catch.h"  // before LibTorch

namespace kvscope {
namespace {

const engine::LoadedModel& model() {
  static const engine::LoadedModel loaded =
      test::gated_model({test::random_gate(GateKind::kvpop_mlstm, 16), test::random_gate(GateKind::wg_kv)});
  return loaded;
}

/// The clock, and when it was begun, are another run's.
RunRecord without_times(RunRecord run) {
  run.timings = {};
  run.started_utc.clear();
  return run;
}

}  // namespace

TEST_CASE("a run that goes on behind the tokens that it had drawn is the run that was never cut off",
          "[engine][resume]") {
  const std::string policy =
      GENERATE("full", "streaming:window=16", "h2o:budget=30,window=16", "tova:budget=30", "snapkv:budget=30,window=16",
               "expected-attention:budget=40", "kvpop:budget=30,window=16", "wg-kv:window=16", "quest:read=32,dense=1",
               "random:budget=30,window=16", "oracle:budget=30,window=16", "kvpop:budget=30,window=16,capacity=pooled");
  const double temperature = GENERATE(0.0, 1.3);
  CAPTURE(policy, temperature);
  RunRequest request = test::request(test::some_ids(60), policy, 40);
  request.sampling.temperature = temperature;
  request.sampling.seed = 11;
  request.oracle = true;
  const RunRecord whole = without_times(engine::record_run(model(), request));
  REQUIRE(whole.status == RunStatus::complete);
  REQUIRE(whole.n_tokens() == 100);
  for (const int n : {0, 1, 17, 40}) {
    RunRequest rest = request;
    rest.answer_ids.emplace(whole.ids.begin() + 60, whole.ids.begin() + 60 + n);
    rest.draw_on = true;
    CAPTURE(n);
    CHECK(test::run_difference(whole, without_times(engine::record_run(model(), rest))).empty());
  }
}

TEST_CASE("a run that goes on with all that it may have has nothing left to draw", "[engine][resume]") {
  RunRequest request = test::request(test::some_ids(20), "full", 30);
  request.draw_on = true;
  request.answer_ids = test::some_ids(30, 512, 9);
  const RunRecord run = engine::record_run(model(), request);
  CHECK(run.status == RunStatus::complete);
  CHECK(std::equal(request.answer_ids->begin(), request.answer_ids->end(), run.ids.begin() + 20, run.ids.end()));
}

}  // namespace kvscope
