// A text that is scored against the run of the same tokens: log-probabilities, and how many tokens each head keeps.

#include <cmath>

#include "app/conformance/check_groups.h"
#include "app/conformance/recorded_run.h"
#include "app/conformance/rule_cases.h"
#include "engine/core/protocol/events.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/text.h"

namespace kvscope::app::conformance {
namespace {

constexpr int kScoreNew = 24;
constexpr double kAfterNearTies = 0.1;

struct Scored {
  RecordedRun run;
  ScoreFacts score;
  int n() const { return static_cast<int>(score.ids.size()); }
};

/// The run's tokens, as far as its queries were made, scored as the run read them.
Scored score_of_run(Subject& subject, const PolicySpec& policy) {
  subject.need("score");
  Scored out{.run = record(subject, long_request(subject, policy, kScoreNew)), .score = {}};
  const RunRecord& run = out.run.run;
  ScoreRequest request{.policy = run.policy, .n_positions = run.n_positions, .prompt_len = run.prompt_len};
  request.ids.assign(run.ids.begin(), run.ids.begin() + run.queries());
  out.score = protocol::score_from_event(subject.talk.done(request));
  require(out.score.ids == request.ids, "score: the ids are not those of the request");
  require(out.score.policy == run.policy,
          "score: the policy is " + out.score.policy.to_string() + "; the request has " + run.policy.to_string());
  require(out.score.prompt_len == request.prompt_len, "score: prompt_len " + std::to_string(out.score.prompt_len) +
                                                          "; the request has " + std::to_string(request.prompt_len));
  return out;
}

/// Of every token but the first, and their mean.
void require_logprobs(const Scored& scored, double tolerance) {
  double sum = 0;
  for (int i = 1; i < scored.n(); ++i) {
    const double found = scored.score.logprobs[static_cast<std::size_t>(i)];
    const double wanted = scored.run.run.logprobs[static_cast<std::size_t>(i)];
    require(found <= 1e-3, "score: the log-probability of token " + std::to_string(i) + " is " + number_text(found, 4) +
                               "; expected 0 or less");
    require(std::isnan(wanted) || std::abs(found - wanted) <= tolerance * (1 + std::abs(wanted)),
            "score: the log-probability of token " + std::to_string(i) + " is " + number_text(found, 4) +
                "; the run of the same tokens has " + number_text(wanted, 4));
    sum -= found;
  }
  const double nll = sum / (scored.n() - 1);
  require(std::abs(scored.score.nll - nll) <= 1e-3 * (1 + nll), "score: nll is " + number_text(scored.score.nll, 6) +
                                                                    "; the mean of its log-probabilities gives " +
                                                                    number_text(nll, 6));
}

std::string dense_score(Subject& subject) {
  if (!subject.runs("full")) throw NotServed("The engine does not run the policy full.");
  const Scored scored = score_of_run(subject, PolicySpec::parse("full"));
  require(scored.score.dense, "score: dense is false under a full cache");
  require_logprobs(scored, subject.tolerance());
  return std::to_string(scored.n()) + " log-probabilities as in the run";
}

/// density of each head against the lifetimes of the run.
std::string kept_tokens(Subject& subject) {
  const Scored scored = score_of_run(subject, evicting_policy(subject));
  // Rounding may decide between two scores that are almost equal, and with it what later queries see.
  require_logprobs(scored, kAfterNearTies);
  require(!scored.score.dense, "score: dense is true, but tokens were evicted");
  const RunRecord& run = scored.run.run;
  const HeadMap kept = head_metric(run, Metric::density, scored.n() - 1);
  require(scored.score.density.size() == kept.values.size(),
          "score: density has " + std::to_string(scored.score.density.size()) + " numbers; expected " +
              std::to_string(kept.values.size()) + ", one per head");
  const int eligible = scored.n() - run.geometry().window;
  for (std::size_t head = 0; head < kept.values.size(); ++head) {
    const int layer = static_cast<int>(head) / run.model.n_kv_heads,
              of_layer = static_cast<int>(head) % run.model.n_kv_heads;
    const float found = scored.score.density[head], wanted = kept.values[head];
    if (run.is_local_by_model(layer, of_layer) || (std::isnan(found) && std::isnan(wanted))) continue;
    // Less than one token.
    require(std::abs(found - wanted) * static_cast<float>(eligible) < 0.5f,
            "score: layer " + std::to_string(layer) + " head " + std::to_string(of_layer) + " keeps " +
                number_text(found * static_cast<float>(eligible), 4) + " of " + std::to_string(eligible) +
                " tokens (density); the lifetimes of the run give " +
                number_text(wanted * static_cast<float>(eligible), 4));
  }
  return run.policy.to_string() + ": kept tokens of each head as the lifetimes give them";
}

}  // namespace

void check_score(Checks& checks, Subject& subject) {
  if (!subject.does("run")) return;
  checks.check("score: log-probabilities", [&] { return dense_score(subject); });
  checks.check("score: kept tokens", [&] { return kept_tokens(subject); });
}

}  // namespace kvscope::app::conformance
