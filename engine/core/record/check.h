#pragma once
// The invariants of a run, in one place: what the wire brings is held to them step by step, what a file brings as a
// whole, by the same predicates.
//
//     a token leaves once, after at least one query saw it: token < evict_at <= n_positions, or NEVER
//     a head has at most one contest a query, queries rising, between two tokens up to the query
//     reads and changes come in the order of their queries
//     layers, heads and token ids are the model's
//     log-probabilities are not above 0; recall lies in [0, 1]; settings and times are in the ranges of run_fields.h
//     a policy can be over n_positions
//     output error has a row a layer and head, all as long as the run has queries, of norms: not negative, or NaN
//     future mass is a mean of probabilities, in [0, 1], or their sum, in [0, horizon]
//
// Of a run that goes on rows may be shorter than the run; of one that has ended they are all as long (finish_run), and
// every reader counts on that.

#include <cstdint>
#include <span>
#include <string>

#include "engine/core/record/run_facts.h"
#include "engine/core/support/error.h"

namespace kvscope {

/// A fact that is not as it must be. `where` is a member of RunRecord or of the fact: "evict_at", "contests",
/// "n_tokens". Whoever knows where the fact came from puts that in: the wire the message and its field, a trace the
/// path and the data set.
class RunFault : public Error {
 public:
  RunFault(const char* field, std::string found, std::string expected);
};

/// What each kind of fact adds, against what the record holds already. They throw RunFault, and for a policy that
/// cannot be over n_positions its own Error.
void check_started(const RunRecord& run, const RunStarted& started);
void check_step(const RunRecord& run, const StepFacts& facts);
void check_oracle(const RunRecord& run, const OracleFacts& facts);
void check_output_error(const RunRecord& run, const OutputErrorFacts& facts);
void check_change(const RunRecord& run, const PolicyChange& change);
void check_ended(const RunRecord& run);

/// A record that has ended, however it came here. Throws as above. A vocabulary of size 0 is one that is not known.
void check_run(const RunRecord& run);

}  // namespace kvscope
