#include "app/page/page_facts.h"

#include <cmath>

#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/compare_runs.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/oracle_label.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

class Facts {
 public:
  void words(std::string name, std::string title, std::string text, std::string definition = {}) {
    if (text.empty()) return;
    facts_.push_back({std::move(name), std::move(title), std::move(text), {}, std::move(definition)});
  }
  void number(std::string name, std::string title, double value, std::string definition,
              const std::string& after = {}) {
    if (std::isnan(value)) return;
    facts_.push_back(
        {std::move(name), std::move(title), brief_number(value) + after, number_text(value), std::move(definition)});
  }
  std::vector<PageFact> all() && { return std::move(facts_); }

 private:
  std::vector<PageFact> facts_;
};

void add_model_and_policy(Facts& facts, const RunRecord& run) {
  const ModelInfo& model = run.model;
  facts.words("model", "Model",
              model.name + " (" + model.architecture + ", " + std::to_string(model.n_layers) + " layers × " +
                  std::to_string(model.n_kv_heads) + " KV heads, " + model.dtype + ")");
  facts.words("policy", "Policy", run.policy.to_string(), std::string(policy_of(run.policy).info.definition));
  for (const PolicyChange& change : run.changes)
    facts.words("change", "Policy from query " + std::to_string(change.q), change.policy.to_string());
  if (!run.reads.empty())
    facts.words("reads", "Reads", "selected pages of the cache at each query; the views show the whole cache");
  facts.words("scorer", "Scores from", run.scorer.text);
  facts.words("recorder", "Recorded by", run.recorder);
}

void add_counts(Facts& facts, const RunRecord& run) {
  const std::int32_t last = run.queries() - 1;
  facts.number("prompt_tokens", "Prompt", run.prompt_len, "tokens that the model was given", " tokens");
  facts.number("answer_tokens", "Answer", run.n_tokens() - run.prompt_len, "tokens after the prompt", " tokens");
  for (const Metric metric : {Metric::density, Metric::cache_share}) {
    for (const MetricInfo& info : metric_list()) {
      if (info.metric != metric) continue;
      facts.number(std::string(info.name), info.title_with_base(), mean(head_metric(run, metric, last)),
                   std::string(info.definition) + "; mean over heads at the last query");
    }
  }
  facts.number("cache_size", "Normalised cache size", mean_cache_size(run),
               "tokens held / tokens read, sinks and window included; mean over heads and queries");
  facts.number("evictions", "Evictions", count_evictions(run).tokens,
               "tokens that the policy evicted by the last query; mean over heads", " tokens per head");
  facts.number("answer_nll", "NLL of the answer", answer_nll(run),
               "mean negative log-likelihood of the answer's tokens", " nats per token");
}

void add_oracle(Facts& facts, const RunRecord& run) {
  const Oracle oracle(run);
  if (!oracle.is_known()) return;
  const OracleMean mean = mean_of(oracle);
  if (mean.n > 0) {
    facts.number("recall", "Oracle recall", mean.recall, std::string(kRecallDefinition),
                 " (" + oracle_label(OracleOf::own, mean) + ")");
    facts.number("chance", "Chance", mean.chance, "recall of the same number of random tokens");
    facts.number("above_chance", "Recall above chance", mean.above_chance(),
                 "(mean recall - mean chance) / (1 - mean chance): 0 for a random choice, 1 for the oracle");
  }
  std::int64_t wrong = 0, judged = 0;
  for (const auto& head : eviction_verdicts(run)) {
    for (const VerdictOfEviction& found : head) {
      judged += found.verdict != EvictionVerdict::unknown;
      wrong += found.verdict == EvictionVerdict::wrong;
    }
  }
  if (judged > 0)
    facts.number("wrong_evictions", "Wrong evictions", static_cast<double>(wrong),
                 "evictions of a token that the oracle, holding as many tokens, would have kept at that query",
                 " of " + std::to_string(judged) + " judged (" +
                     fixed_text(100.0 * static_cast<double>(wrong) / static_cast<double>(judged), 1) + " %)");
}

}  // namespace

std::vector<PageFact> page_facts(const RunRecord& run) {
  Facts facts;
  add_model_and_policy(facts, run);
  add_counts(facts, run);
  add_oracle(facts, run);
  return std::move(facts).all();
}

}  // namespace kvscope::app
