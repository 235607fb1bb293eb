#pragma once
// The table of an evaluation at several lengths: a column for each.

#include <span>
#include <string>

#include "app/studies/eval/eval_table.h"

namespace kvscope::app {

/// The mean over all tasks of one length under one policy.
struct EvalAverage {
  int length = 0;
  std::string policy;
  int n_tasks = 0;
  double accuracy = kNotMeasured, cache_size = kNotMeasured;
};

/// For each length and policy, where there are several tasks, all with answers.
std::vector<EvalAverage> averages(std::span<const EvalResult> results);

///     text, latex   accuracy (NLL of texts) and cache size, each with a column for every length; last the averages
///     json          one object on one line: lengths (facts and rows of each), and averages
std::string length_table(std::span<const EvalResult> results, TableFormat format);

}  // namespace kvscope::app
