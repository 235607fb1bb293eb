#pragma once
// What an evaluation can put to the test: every policy of the engine, and two that only an evaluation can have.

#include <string>

#include "engine/core/policy/policy_text.h"
#include "engine/decode/generation.h"
#include "engine/jobs/tasks/question.h"

namespace kvscope::engine {

/// How the tokens to keep are chosen: by the engine's policy, by seeded random scores, or by the future-attention
/// oracle, which has read the whole sequence beforehand (an upper bound, of no use for decoding).
enum class EvalKind { policy, random, oracle };

struct EvalPolicy {
  EvalKind kind = EvalKind::policy;
  PolicySpec spec;    // of random and oracle: kvpop with the same geometry
  std::string title;  // "kvpop", "random"
  int budget = 0;     // most tokens a head keeps; 0 if nothing bounds them

  /// "kvpop:budget=512", "streaming:sinks=4,window=508", "random:budget=512", "oracle:budget=512". A budget written as
  /// a share refers to `length` positions. With a model, what is not written is its gates' (resolved_policy()). Throws
  /// Error (usage).
  static EvalPolicy parse(const std::string& text, int length, const LoadedModel* model = nullptr);
};

/// What a policy needs to know of a sequence before the first question: lifetimes of random and oracle, nothing else.
LifetimeMap prepare_sequence(const LoadedModel& model, const EvalPolicy& policy, const TaskSequence& sequence,
                             std::uint64_t seed);

/// Whether the model, decoding greedily under the policy from the true text before the question, writes the answer
/// exactly. Stops at the first wrong token. prepared: of this policy and sequence.
bool answers(const LoadedModel& model, const EvalPolicy& policy, const TaskSequence& sequence,
             const LifetimeMap& prepared, const AnswerSpan& span, const Hooks& hooks);

/// Mean oracle recall over heads and over queries with a full cache, on one sequence. NaN for a policy that ranks
/// nothing (full, streaming). prepared: of this policy and sequence.
double sequence_recall(const LoadedModel& model, const EvalPolicy& policy, const TaskSequence& sequence,
                       const LifetimeMap& prepared, const Hooks& hooks);

}  // namespace kvscope::engine
