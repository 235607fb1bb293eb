#pragma once
// Two runs of one prompt beside each other: where their texts part, and how much of what they keep is the same.

#include "engine/core/study/measure/retention_metrics.h"

namespace kvscope {

struct RunComparison {
  int n_common = 0;  // tokens from the beginning on that are the same
  /// Whether both go on after them, with different tokens: position n_common of each.
  bool diverged = false;
  /// Both have the same prompt.
  bool same_prompt = true;

  /// The last query position that both have made on the same tokens; -1 if there is none.
  int q = -1;
  /// |kept by both| / |kept by either|, of each head, over t <= q - window (the wider of both windows, so that no token
  /// counts that one of them could not have evicted); sinks count. NaN where neither keeps any, or a run has no
  /// lifetimes.
  HeadMap overlap;

  /// Mean negative log-probability over the tokens 1 ... n_common - 1, which both runs saw; nats. NaN without any.
  int n_scored = 0;
  double nll_a = 0, nll_b = 0;
};

/// Tokens from the beginning on that are the same, RunComparison::n_common alone: beyond them no cell-wise comparison is valid.
int common_prefix(const RunRecord& a, const RunRecord& b);
/// RunComparison::same_prompt alone.
bool same_prompt(const RunRecord& a, const RunRecord& b);
/// Whether both go on after these, with different tokens: RunComparison::diverged alone.
bool tokens_part(const RunRecord& a, const RunRecord& b);

/// Mean negative log-probability of the answer's tokens, or of the whole text where nothing was answered; nats. NaN without any.
double answer_nll(const RunRecord& run);
/// The same of the whole text, prompt and answer.
double text_nll(const RunRecord& run);

/// Throws Error (bad input) if the runs are of models of different shape or vocabulary.
RunComparison compare_runs(const RunRecord& a, const RunRecord& b);

}  // namespace kvscope
