#pragma once
// What a run tells as it goes, in the order in which it is told: RunStarted, StepFacts (of the prompt), then StepFacts,
// OracleFacts and PolicyChange, then OutputErrorFacts, and at last RunEnded. Facts stay facts: they are gathered in the
// engine, checked and applied by assemble.h, and become messages only at the pipe.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// A run begins: its prompt as tokens, told before prefill so that they can be drawn at once.
struct RunStarted {
  RunHead head;
  std::vector<std::int32_t> ids;
  BytePool pieces;  // as many as ids
};

/// What one head decided in a chunk of a prompt, as its decisions left it. To make facts of them takes longer than to
/// decide, so spread() does that where no device waits.
struct HeadDecisions {
  std::int16_t layer = 0, kv_head = 0;
  std::vector<TokenEviction> evictions;  // in the order of the queries
  std::vector<Contest> contests;         // layer and kv_head are not set
  std::int32_t first_scored = 0;         // token of scores[0]
  std::vector<float> scores;             // NaN: not known
};

/// Facts of one batch: one for the whole prompt, then one a decode step. Tokens that no lifetime names are alive.
struct StepFacts {
  int n_tokens = 0;               // positions whose facts are complete after this step
  std::vector<std::int32_t> ids;  // new tokens; none of a prefill
  BytePool pieces;
  int logprobs_from = 0;
  std::vector<float> logprobs;  // of positions logprobs_from ...
  struct Lifetime {
    std::int32_t layer, kv_head, token, evict_at;
  };
  std::vector<Lifetime> lifetimes;  // that changed
  struct Score {
    std::int32_t layer, kv_head, token;
    float value;
  };
  std::vector<Score> scores;
  std::vector<Contest> contests;
  std::vector<PageRead> reads;
  std::vector<HeadDecisions> decisions;  // of a prompt, that are not in lifetimes, scores and contests yet
  HeadRules heads;                       // where they have changed: budgets that scores have divided; else empty
  double seconds = 0;
};

/// Appends `decisions` to lifetimes, scores and contests, and leaves none. In between, less memory is used than for both.
void spread(StepFacts& facts);

/// Recall so far, or, when final, the future-attention target itself.
struct OracleFacts {
  int horizon = 0;            // queries the teacher has seen
  std::vector<float> recall;  // [n_layers][n_kv_heads], recall(q) of Metric::recall at q = horizon - 1; NaN for 0 / 0
  bool final = false;
  HeadSeries<float> future_mass;  // [n_layers][n_kv_heads][horizon], empty unless final; NaN without future queries
  FutureKinds future;             // the same
};

/// Means over heads and queries, measured if a ScoreRequest asks for them; NaN where nothing was chosen or lost.
struct ScoreQuality {
  double recall = std::numeric_limits<double>::quiet_NaN();
  double chance = std::numeric_limits<double>::quiet_NaN();        // of the same queries
  double mass_recall = std::numeric_limits<double>::quiet_NaN();   // of the same queries
  double output_error = std::numeric_limits<double>::quiet_NaN();  // mean over layers
};

/// What a ScoreRequest comes to.
struct ScoreFacts {
  std::vector<std::int32_t> ids;
  std::vector<float> logprobs;       // [ids], NaN for the first
  double nll = 0;                    // mean of -logprob, nats per token; NaN for a text of one token
  std::vector<float> density;        // [n_layers][n_kv_heads] at the last position, Metric::density
  bool dense = false;                // every query that a log-probability is of saw and read all before it
  PolicySpec policy = {};            // that the text was read under: what was not written is the gate's
  int prompt_len = 0, chunk = 0;     // as they were used: one of them is 0
  std::vector<float> thresholds;     // RunRecord::thresholds()
  std::vector<std::int32_t> greedy;  // if asked for: the likeliest token of each position, -1 for the first
  ScoreQuality quality = {};
  /// mean_cache_size(); NaN if the engine does not send it.
  double cache_size = std::numeric_limits<double>::quiet_NaN();
};

/// What eviction did to the attention of every layer, told once, after the last step.
struct OutputErrorFacts {
  OutputError error;  // every row as long as the run has queries
};

/// A cancelled run has ended too: that is an outcome, not an error.
struct RunEnded {
  RunStatus status = RunStatus::complete;
  RunTimings timings;
  std::string text;       // the answer
  double measured_s = 0;  // what the oracle and the output error took after the last token; for the engine's own use
};

}  // namespace kvscope
