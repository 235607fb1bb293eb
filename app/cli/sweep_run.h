#pragma once
// The work of a sweep: several engines at once, each of which answers its part of every group.

#include <string>
#include <vector>

#include "app/cli/engine_job.h"
#include "app/cli/sweep_journal.h"

namespace kvscope::app {

struct SweepRun {
  const Arguments& arguments;
  const SweepPlan& plan;
  int jobs = 1;
  int shard = 0, n_shards = 1;

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

/// Of every kind of group the first question or piece, under the dense policy and under the first other one: what --dry-run
/// estimates from. `load_s`: seconds until an engine has the model. Nothing after Ctrl+C.
std::vector<SweepSample> measure_samples(const SweepRun& run, double& load_s);

}  // namespace kvscope::app
