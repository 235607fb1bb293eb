#pragma once
// The work of a sweep: several engines at once, each of which answers its part of every group.

#include <optional>
#include <string>
#include <vector>

#include "app/engine_client/engine_job.h"
#include "app/studies/shard.h"
#include "app/studies/sweep/sweep_journal.h"

namespace kvscope::app {

struct SweepRun {
  EngineJobOptions engine;
  const SweepPlan& plan;
  int jobs = 1;  // engines
  Shard shard = {};

  /// Answers of this shard, and those of them that the journal has.
  std::int64_t n_all() const;
  std::int64_t n_done(const SweepJournal& journal) const;
};

/// Asks for what the journal does not have, until all is answered or Ctrl+C; true: all is. What an engine refuses is said before the
/// journal is made. Throws Error; what was answered before is in the journal.
bool answer_all(const SweepRun& run, SweepJournal& journal);

/// Seconds of an answer as measured now, and what of.
struct SweepSample {
  std::string group, policy;
  double seconds = 0;
  std::int64_t n = 0;  // answers of the sweep that it stands for
};

struct SweepEstimate {
  std::vector<SweepSample> samples;
  double load_s = 0;                          // until an engine has the model
  double seconds = 0;                         // of what is left, with one engine
  double study_bytes = 0, answers_bytes = 0;  // of the files when all is answered
};

/// From the first question or piece of every kind of group, under the dense policy and under the first other one. Nothing after
/// Ctrl+C.
std::optional<SweepEstimate> estimate_sweep(const SweepRun& run, const SweepJournal& journal);

}  // namespace kvscope::app
