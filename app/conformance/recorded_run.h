#pragma once
// A run of the engine as a record. Every event is held to the rules that each run has, whatever is checked with it.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/conformance/subject.h"
#include "engine/core/record/run_facts.h"

namespace kvscope::app::conformance {

struct RecordedRun {
  RunRecord run;
  std::string text;              // of the answer, as `done` has it
  std::vector<int> horizons;     // of the oracle's events, in order
  std::vector<float> recall;     // of the last one
  std::vector<std::string> log;  // lines of the run
  bool has_oracle = false;       // the last event of the oracle was final
  bool is_alive(int layer, int head, int token, int query) const {
    return visible(query, token, run.evict_at.row(layer, head)[static_cast<std::size_t>(token)]);
  }
};

/// Asks for the run. `handler` sees each event after it was taken. Throws Failure for an event that breaks a rule, and if the
/// run ends in an error.
RecordedRun record(Subject& subject, const RunRequest& request, const Conversation::Handler& handler = {});

/// The same of several at once. `handler` is also given the place of the request.
std::vector<RecordedRun> record_together(Subject& subject, const std::vector<RunRequest>& requests,
                                         const Conversation::HandlerOfMany& handler = {});

/// The pieces of tokens `from` ... of a run in one.
std::string joined_pieces(const RunRecord& run, int from);

/// Throws Failure that names the first token whose id differs, or whose log-probability differs by more than `tolerance`, up
/// to the end of the shorter run.
void require_same_tokens(const RunRecord& found, const RunRecord& wanted, double tolerance, const std::string& what);
/// The same of the lifetimes: what left by the last query that both runs made.
void require_same_lifetimes(const RunRecord& found, const RunRecord& wanted, const std::string& what);

}  // namespace kvscope::app::conformance
