#pragma once
// What a run tells as it goes, in the order in which it is told: RunStarted, StepFacts (of the prompt), then StepFacts,
// OracleFacts and PolicyChange, and at last RunEnded. Facts stay facts: they are gathered in the engine, checked and
// applied by assemble.h, and become messages only at the pipe.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// Facts of one batch, as the engine gathers them and the client takes them in.
struct StepFacts {
  int n_tokens = 0;
  std::vector<std::int32_t> ids;
  BytePool pieces;
  int logprobs_from = 0;
  std::vector<float> logprobs;
  struct Lifetime {
    std::int32_t layer, kv_head, token, evict_at;
  };
  std::vector<Lifetime> lifetimes;
  struct Score {
    std::int32_t layer, kv_head, token;
    float value;
  };
  std::vector<Score> scores;
  std::vector<Contest> contests;
  std::vector<std::int32_t> reads;  // (q, layer, kv_head, n, n pages of 16 slots): what a selecting query read
  double seconds = 0;
};

}  // namespace kvscope
