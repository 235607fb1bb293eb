#pragma once
// What a run is asked for. The window, the command line and the tests fill it; the engine carries it out.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/record/chat_message.h"
#include "engine/core/record/run_record.h"

namespace kvscope {

/// What a `run` asks for.
struct RunRequest {
  std::string prompt;
  std::vector<std::int32_t> prompt_ids;  // used instead of prompt if not empty (teacher-forced comparisons, eval)
  bool raw = true;                       // encode as text; false: write as the model's chat template has it
  std::vector<ChatMessage> messages;     // of a chat; empty: the prompt is its one message, a user's
  ChatOptions chat;                      // thinking and date; the answer is always asked for
  PolicySpec policy;
  int max_tokens = 64;
  SamplingSpec sampling;
  bool oracle = true;
  OracleSpec oracle_spec;
  bool output_error = false;          // measured by one more pass when all tokens are there (OutputError)
  std::vector<PolicyChange> changes;  // parameters that hold from query q on, q ascending
  bool stop_at_eos = true;
  std::vector<std::string> stop;  // texts before which the answer ends, see StopStrings
};

}  // namespace kvscope
