#pragma once
// What a run is asked for. The window, the command line and the tests fill it; the engine carries it out.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/policy/policy_text.h"
#include "engine/core/record/chat_message.h"
#include "engine/core/record/oracle_text.h"

namespace kvscope {

/// How the next token is drawn, see engine/core/sampling/sampler.h.
struct SamplingSpec {
  double temperature = 0;  // 0 is greedy
  int top_k = 0;           // 0: all
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::uint64_t seed = 0;
  bool operator==(const SamplingSpec&) const = default;
};

/// Parameters that were changed while the run went on: they hold from query q on.
struct PolicyChange {
  std::int32_t q = 0;
  PolicySpec policy;
  bool operator==(const PolicyChange&) const = default;
};

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
  bool oracle_looks = true;           // recall is reported during the run too, not only at its end
  bool output_error = false;          // measured by one more pass when all tokens are there (OutputError)
  std::vector<PolicyChange> changes;  // parameters that hold from query q on, q ascending
  bool stop_at_eos = true;
  std::vector<std::string> stop;  // texts before which the answer ends, see StopStrings
  /// The answer as it is given, a forced step each, instead of drawn; empty: nothing follows the prompt.
  std::optional<std::vector<std::int32_t>> answer_ids;
  /// After answer_ids more tokens are drawn, as by a run that drew these itself: a run that was cut off goes on.
  bool draw_on = false;
  /// Of a text that is read only (the prompt; nothing is drawn): from its first token on the policy acts after every so
  /// many tokens, see engine/decode/forced_pass.h. 0: the prompt passes as the policy's runs have it.
  int chunk = 0;
  std::vector<float> thresholds;  // of a run that is read again or goes on: RunRecord::thresholds(), not solved anew
  std::vector<std::int32_t> budgets;  // likewise RunRecord::budgets(), or given: tokens of each head, sinks included

  bool draws() const { return chunk == 0 && (!answer_ids || draw_on); }
};

/// What a `score` asks for: the log-probability of every token of a text under a policy.
struct ScoreRequest {
  std::string text;
  std::vector<std::int32_t> ids;  // used instead of text if not empty
  PolicySpec policy;
  std::vector<PolicyChange> changes;  // as RunRequest has them
  int n_positions = 0;                // with ids: what keep= and compression= refer to; 0: their number
  int prompt_len = 0;  // with ids: the first so many pass as the policy's runs have their prompts, the others one by
                       // one; 0: all are under the policy
  int chunk = 1;       // without prompt_len: the policy acts after every so many tokens
  std::vector<float> thresholds;      // as RunRequest has them, with prompt_len
  std::vector<std::int32_t> budgets;  // as RunRequest has them
  bool choices = false;               // also the likeliest tokens
  std::optional<OracleSpec> oracle;   // also recall against this one, by a dense pass
  bool output_error = false;          // also what eviction does to the output of attention, by one more pass
};

}  // namespace kvscope
