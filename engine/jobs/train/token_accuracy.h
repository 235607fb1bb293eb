#pragma once
// How often a model under its scorers' eviction says the token that comes next (KVpop Fig. 5).

#include "engine/jobs/train/data_loader.h"
#include "engine/jobs/train/decoder_module.h"
#include "engine/jobs/train/recipe.h"
#include "engine/jobs/train/scorer_module.h"

namespace kvscope::engine {

/// Share of the positions of the first `accuracy_sequences` held-out sequences whose likeliest next token is the right one, while
/// every query sees what running top-k keeps with the first of the options' budgets.
double token_accuracy(const DecoderModule& student, const ScorerModule& scorer, const SequenceSource& heldout,
                      const ScorerOptions& options);

}  // namespace kvscope::engine
