#include "app/studies/rescore/rescore.h"

#include <algorithm>

#include "app/support/table_text.h"
#include "engine/core/policy/density.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

// Mean over positions begin ... of -logprob, nats; NaN without any.
double nll(const std::vector<float>& logprobs, int begin) {
  double sum = 0;
  int n = 0;
  for (std::size_t i = static_cast<std::size_t>(std::max(begin, 1)); i < logprobs.size(); ++i, ++n) sum -= logprobs[i];
  return sum / n;
}

ordered_json change(double recorded, double compared) {
  return {{"recorded", number_or_null(recorded)},
          {"compared", number_or_null(compared)},
          {"change", number_or_null(compared - recorded)}};
}

// The first position of the answer where the likeliest token is another one.
ordered_json first_choice(const RunRecord& run, const Scored& recorded, const Scored& compared) {
  for (int i = std::max(run.prompt_len, 1); i < run.n_tokens(); ++i) {
    const auto a = recorded.greedy[i], b = compared.greedy[i];
    if (a != b) return {{"position", i}, {"recorded_id", a}, {"compared_id", b}};
  }
  return nullptr;
}

ordered_json changes_json(const RunRecord& run) {
  ordered_json changes = ordered_json::array();
  for (const PolicyChange& change : run.changes)
    changes.push_back({{"q", change.q}, {"policy", change.policy.to_string()}});
  return changes;
}

// What was asked for besides, under its name.
void add_quality(ordered_json& result, const ScoreQuality& recorded, const ScoreQuality& compared,
                 const Reading& reading) {
  if (reading.oracle) {
    result["recall"] = change(recorded.recall, compared.recall);
    result["chance"] = change(recorded.chance, compared.chance);
    result["mass_recall"] = change(recorded.mass_recall, compared.mass_recall);
  }
  if (reading.output_error) result["output_error"] = change(recorded.output_error, compared.output_error);
}

}  // namespace

std::string Reading::text() const {
  if (chunk == 0) return "the prompt as in a run under that policy, then token by token";
  if (chunk == 1) return "all of them under the policy, which acted after every token";
  return "all of them under the policy, which acted after every " + std::to_string(chunk) + " tokens";
}

std::optional<Scored> score_run(EngineJob& job, const RunRecord& run, const PolicySpec& policy,
                                const std::vector<PolicyChange>& changes, const Reading& reading) {
  ScoreRequest request{.text = "",
                       .ids = run.ids,
                       .policy = policy,
                       .changes = changes,
                       .n_positions = std::max(run.n_positions, run.n_tokens()),
                       .choices = true,
                       .oracle = reading.oracle,
                       .output_error = reading.output_error};
  if (reading.chunk > 0) {
    request.chunk = reading.chunk;
  } else {
    request.prompt_len = run.prompt_len;
    // Solved again on another device they come out otherwise, and the run would not be the one that was.
    if (policy == run.policy) request.thresholds = run.thresholds(), request.budgets = run.budgets_to_repeat();
  }
  const auto done = job.call(request);
  if (protocol::was_cancelled(done)) return std::nullopt;
  ScoreFacts facts = protocol::score_from_event(done);
  const auto heads = static_cast<std::size_t>(run.model.n_layers) * run.model.n_kv_heads;
  if (facts.ids != run.ids || facts.greedy.size() != run.ids.size() || facts.density.size() != heads)
    throw Error({.code = ExitCode::resource, .file = "engine", .found = "an answer that does not match the run"});
  return Scored{std::move(facts.logprobs),
                std::move(facts.greedy),
                {run.model.n_layers, run.model.n_kv_heads, std::move(facts.density)},
                facts.cache_size,
                facts.dense,
                facts.quality,
                std::move(facts.policy),
                std::move(facts.thresholds)};
}

ordered_json comparison_json(int index, const RunRecord& run, const Scored& recorded, const Scored& compared,
                             const Reading& reading) {
  ordered_json per_token = ordered_json::array();
  for (int i = 0; i < run.n_tokens(); ++i)
    per_token.push_back(number_or_null(compared.logprobs[i] - recorded.logprobs[i]));
  ordered_json result = {
      {"run", index},
      {"prompt_index", run.prompt_index},
      {"recorded_policy", run.policy.to_string()},
      {"recorded_changes", changes_json(run)},
      {"compared_policy", compared.policy.to_string()},
      {"solved",
       {{"recorded", describe_density(recorded.policy, recorded.thresholds)},
        {"compared", describe_density(compared.policy, compared.thresholds)}}},
      {"tokens", run.n_tokens()},
      {"prompt_tokens", run.prompt_len},
      {"nll", change(nll(recorded.logprobs, 1), nll(compared.logprobs, 1))},
      {"answer_nll", change(nll(recorded.logprobs, run.prompt_len), nll(compared.logprobs, run.prompt_len))},
      {"first_choice_change", first_choice(run, recorded, compared)},
      {"cache_size", change(recorded.cache_size, compared.cache_size)},
      {"density", change(mean(recorded.density), mean(compared.density))},
      {"dense", {{"recorded", recorded.dense}, {"compared", compared.dense}}},
      {"logprob_change", std::move(per_token)}};
  add_quality(result, recorded.quality, compared.quality, reading);
  return result;
}

}  // namespace kvscope::app
