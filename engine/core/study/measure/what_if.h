#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/record/gate_scores.h"
#include "engine/core/record/run_record.h"

namespace kvscope {

/// What `asked` would have kept, had the recorded scores stayed as they are: a preview, since evicting other tokens in
/// one layer changes the scores of the layers above it. The result is a copy of `run` with new lifetimes, contests and
/// oracle lifetimes; ids and pieces are the recorded ones.
///
/// What was not written of it is as the run had it, where the run's policy has the same name (policy_after()): a trace does
/// not know what its gate would say.
///
/// A pooled budget is previewed as a run has it: the prompt dense, a cut before every query behind it.
///
/// A density that is not the run's own is solved on the prompt's recorded scores, where a run
/// solves it on those that it has under it.
///
/// Where the run did not record the scores that `asked` reads, those of `gates` do, of the run's tokens under a full cache;
/// the gate's own numbers go before the method's then, as they do in a run. `scorer` of the result says whose they were.
///
/// Throws Error (bad input) if the run has no scores, nor `gates`, and `asked` needs them, or if `asked` needs them and changes the
/// window of a delayed scorer (the score itself was read out at t + window, so no preview of another window is honest).
/// A policy that reads no scores may have any window; future_mass and oracle are left empty then, as they belong to the
/// old one. `asked` holds for the whole run: the result has no changes of the policy, and no page reads, which need the
/// keys.
///
/// `budgets`: of each head, given as RunRequest::budgets; empty: what the policy says.
RunRecord what_if(const RunRecord& run, const PolicySpec& asked, const ScoresOfGates& gates = {},
                  const std::vector<std::int32_t>& budgets = {});

/// Whether `asked` reads scores, and the run recorded none that it could read. Kind and name are those of the gate that a run of
/// `asked` would be scored by: scores of another kind, or of another gate of that kind, are not what it would see. Empty: not
/// known, as of runs of old traces.
bool lacks_scores(const RunRecord& run, const PolicySpec& asked, std::string_view scorer_kind = "",
                  std::string_view gate = "");

/// What a person should know who compares `run` with a preview of it; empty if there is nothing.
std::string what_if_note(const RunRecord& run, const RunRecord& preview);

}  // namespace kvscope
