#pragma once
// One run of the fake engine: the same events in the same order as the real one's.

#include <functional>
#include <nlohmann/json.hpp>

#include "engine/core/protocol/protocol.h"

namespace kvscope::fake {

struct RunHooks {
  std::function<void(const nlohmann::json& event)> send;
  std::function<bool()> cancelled;
  std::function<void(int n_generated)> before_step;  // sleeps, dies: what the options ask for
  std::function<void()> after_first_token;
  ScorerInfo scorer;  // said to give the scores
};

/// Plays the whole run; ends with its `done`. Throws Error if the request does not fit the model.
void play_run(const RunRequest& request, int id, const ModelInfo& model, const RunHooks& hooks);

/// Answers a `score` request: log-probabilities of a hash. With choices, what a policy throws away costs: a token is
/// the less likely the less is kept, and where much is gone the likeliest token is another one.
void play_score(const ScoreRequest& request, int id, const ModelInfo& model, const RunHooks& hooks);

}  // namespace kvscope::fake
