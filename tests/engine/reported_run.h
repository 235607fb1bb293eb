#pragma once
// Everything that a run reports, as bits.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/protocol/events.h"
#include "engine/core/protocol/protocol.h"
#include "engine/decode/run_batch.h"
#include "engine/decode/run_in_flight.h"
#include "tests/support/expect_error.h"

namespace kvscope::test {

/// What a step says but how long it took.
inline nlohmann::json said(StepFacts facts) {
  facts.seconds = 0;
  return protocol::to_json(facts, 0);
}

/// The events of a run in their order, times left out; an error is the last one, as its line.
struct ReportedRun {
  std::vector<nlohmann::json> events;
  int n_new = 0;  // tokens of the answer

  engine::RunSink sink() {
    engine::RunSink sink;
    sink.started = [this](const RunStarted& started) { events.push_back(protocol::to_json(started, 0)); };
    sink.step = [this](const StepFacts& facts) {
      n_new += static_cast<int>(facts.ids.size());
      events.push_back(said(facts));
    };
    sink.oracle = [this](const OracleFacts& facts) { events.push_back(protocol::to_json(facts, 0)); };
    sink.output_error = [this](const OutputErrorFacts& facts) { events.push_back(protocol::to_json(facts, 0)); };
    sink.policy_changed = [this](const PolicyChange& change) { events.push_back(protocol::to_json(change, 0)); };
    sink.log = [this](const std::string& text) { events.emplace_back(text); };
    return sink;
  }
  void end(const RunEnded& ended) {
    RunEnded timeless = ended;
    timeless.timings = {};
    events.push_back(protocol::to_json(timeless, 0));
  }
  void fail(const std::exception_ptr& error) {
    events.emplace_back(error_of([&] { std::rethrow_exception(error); }));
  }
};

}  // namespace kvscope::test
