#pragma once
// A made-up run that is complete and consistent: its lifetimes and contests follow from its scores by the real rules.

#include <cstdint>
#include <string>

#include "engine/core/record/run_record.h"

namespace kvscope::test {

struct RandomRunOptions {
  std::string policy = "kvpop:budget=64,sinks=4,window=16,decay=0.9999";
  int n_layers = 2, n_kv_heads = 3, group_size = 2;
  int prompt_len = 120, n_new = 60;
  bool scorer = true;          // scores are recorded
  bool oracle = true;          // future mass and oracle lifetimes are there
  bool output_error = false;   // it was measured; NaN before the window is full
  bool page_reads = false;     // each query of each head read up to 8 pages
  int n_changes = 0;           // of the policy, while the run went on
  bool last_token_fed = true;  // false: the last sampled token was not fed, as at the end of many real runs
};

/// Pieces are words, numbers, line ends, quotes, control characters and halves of UTF-8 characters; scores and future
/// mass agree in part, so that recall lies between chance and 1. The same seed and options give the same run.
RunRecord random_run(std::uint64_t seed, const RandomRunOptions& options = {});

/// The rules of the run's heads, all alike if it had none.
HeadRules& own_rules(RunRecord& run);
/// [n_layers * n_kv_heads], 1: the policy made the head local.
void make_local(RunRecord& run, const std::vector<std::uint8_t>& local);
/// One field of every head's rule.
template <typename T>
void set_heads(RunRecord& run, T HeadRule::*field, const std::vector<T>& values) {
  HeadRules& heads = own_rules(run);
  for (std::size_t i = 0; i < heads.size(); ++i) heads[i].*field = values.at(i);
}

/// The first field in which two runs differ, with both values where they are short; empty if they are the same. NaNs
/// are equal to each other. Contests of different heads may be interleaved in any way.
std::string run_difference(const RunRecord& a, const RunRecord& b);

}  // namespace kvscope::test
