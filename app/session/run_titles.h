#pragma once
// What the list calls each run: its policy, and what tells it from the others of the list.

#include <map>
#include <string>
#include <vector>

#include "app/session/runs.h"

namespace kvscope::app {

struct RunTitle {
  std::string text;  // "replay of run 1: KVpop 25 % (kvpop-mlstm), window 32"
  std::string hint;  // what a mark in it means; empty: it has none
};

/// By the runs' ids. A run's name comes first; then what it took its tokens from ("replay of run 1", "fork of run 1 at query
/// 120"); then the policy with its budget, its gate, and the parameters that are not at their defaults or differ among the runs
/// of that policy; of runs that are equal in all of this the sampling and the model where these differ, or "1 of 2 alike".
std::map<int, RunTitle> run_titles(const std::vector<RunEntry>& runs);

/// What a run is called where no other is beside it: "KVpop 25 % (kvpop-mlstm), window 32".
std::string policy_title(const RunRecord& run);

}  // namespace kvscope::app
