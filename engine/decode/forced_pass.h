#pragma once
// A text that is read under a policy, not written: what score, compare and replays measure.

#include "engine/core/record/run_facts.h"
#include "engine/core/record/run_request.h"
#include "engine/decode/hooks.h"

namespace kvscope::engine {

class LoadedModel;

/// Teacher forcing. Every query sees what a run under the policy would have left it, and log p(id[i] | id[0 ... i - 1])
/// is taken from that. Without prompt_len the policy acts from the first token on, after every `chunk` tokens:
///
///     query q of chunk c = [c chunk, (c + 1) chunk)  sees  t <= q  of  what was alive at the chunk's begin, and of c
///
///     a rule of scores, one by one     its decisions; with chunk > 1 those made within c take effect at its end, evict_at
///                                      rounded up to the first query behind it
///     TOVA, H2O                        chunk 1: the least after every query; else all that is over the budget at the end
///                                      of c, by the same measure
///     SnapKV, Expected Attention       at the end of c their compression of a prompt, if the cache is over the budget, by
///                                      their newest queries
///     a pool, a pooled budget          is emptied, or cut, at the end of c
///     Quest                            every query reads what it chooses, from the first on
///
/// With prompt_len that many tokens pass as the policy's runs have their prompt (densely, if so published), the others as
/// forced steps; `changes` hold as in a run. Budgets given as a share are of n_positions, from the first token on.

/// The request of a run that reads these tokens so: RunRequest::answer_ids or ::chunk is set. Throws Error (usage).
RunRequest forced_request(const LoadedModel& model, const ScoreRequest& request);

/// Mean of -logprob of all tokens but the first, nats; NaN for fewer than two.
double mean_nll(const std::vector<float>& logprobs);

/// Throws what Generation throws; Error (cancelled) when the hook says so.
ScoreFacts forced_pass(const LoadedModel& model, const ScoreRequest& request, const Hooks& hooks = {});

}  // namespace kvscope::engine
