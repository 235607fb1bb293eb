// The oracle's masses and its recall, as far as the event itself can be held to their definition (oracle_text.h).

#include <algorithm>
#include <cmath>

#include "app/conformance/check_groups.h"
#include "app/conformance/recorded_run.h"
#include "app/conformance/rule_cases.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/text.h"

namespace kvscope::app::conformance {
namespace {

constexpr int kOracleNew = 40;  // more than an engine needs to report the recall in mid-run

RecordedRun oracle_run(Subject& subject, const PolicySpec& policy, const char* spec, bool is_long) {
  subject.need("oracle");
  RunRequest request =
      is_long ? long_request(subject, policy, kOracleNew) : subject.request(policy, kBasePrompt, kOracleNew);
  request.oracle = true;
  request.oracle_spec = OracleSpec::parse(spec);
  RecordedRun found = record(subject, request);
  require(found.has_oracle, "no final event oracle in a run that asked for the oracle");
  require(found.run.oracle == request.oracle_spec, "started: oracle_spec is " + found.run.oracle.to_string() +
                                                       "; the request has " + request.oracle_spec.to_string());
  require(found.run.oracle_horizon >= found.run.n_tokens() - 1, "oracle: the final horizon is " +
                                                                    std::to_string(found.run.oracle_horizon) + " of " +
                                                                    std::to_string(found.run.n_tokens()) + " tokens");
  return found;
}

/// One head's masses.
struct Head {
  const RunRecord& run;
  int layer, kv_head;
  std::string place(int t) const {
    return "of token " + std::to_string(t) + " in layer " + std::to_string(layer) + " head " + std::to_string(kv_head);
  }
  float at(const HeadSeries<float>& series, int t) const {
    return series.row(layer, kv_head)[static_cast<std::size_t>(t)];
  }
};

/// mean <= rms <= max <= N mean, as p is not negative; equal where one query counts.
void require_kinds(const Head& head, int t, int n_later, const std::string& name, float mean, float rms, float max,
                   double tolerance) {
  const auto at_most = [&](double a, double b, const char* which) {
    require(a <= b * (1 + tolerance) + 1e-6, "oracle: " + name + " " + head.place(t) + ": " + which + ", but mean is " +
                                                 number_text(mean, 5) + ", rms " + number_text(rms, 5) + ", max " +
                                                 number_text(max, 5));
  };
  at_most(mean, rms, "the mean is at most the root mean square");
  at_most(rms, max, "the root mean square is at most the maximum");
  at_most(max, static_cast<double>(mean) * n_later, "the maximum is at most the sum of the later queries");
}

void require_head(const Head& head, double tolerance) {
  const RunRecord& run = head.run;
  const int horizon = run.oracle_horizon, window = run.geometry().window;
  const int group = run.model.n_heads / run.model.n_kv_heads;
  double sum = 0;
  for (int t = 0; t < horizon; ++t) {
    const int n_later = horizon - t - window;
    const float mean = head.at(run.future_mass, t);
    require(std::isnan(mean) == (n_later <= 0), "oracle: future_mass " + head.place(t) + " is " + number_text(mean, 5) +
                                                    ", with " + std::to_string(std::max(0, n_later)) +
                                                    " later queries; expected NaN where there are none, else a number");
    if (n_later <= 0) continue;
    sum += static_cast<double>(mean) * n_later;
    if (!run.future.rms.empty() && !run.future.max.empty())
      require_kinds(head, t, n_later, "attention", mean, head.at(run.future.rms, t), head.at(run.future.max, t),
                    tolerance);
    if (!run.future.output_mean.empty() && !run.future.output_rms.empty() && !run.future.output_max.empty())
      require_kinds(head, t, n_later, "attention times output", head.at(run.future.output_mean, t),
                    head.at(run.future.output_rms, t), head.at(run.future.output_max, t), tolerance);
  }
  // A query's attention sums to 1. With agg=max each query head of the group may have the greatest share of other tokens.
  const int n_queries = std::max(0, horizon - window);
  const double most = run.oracle.aggregate == OracleSpec::Aggregate::mean ? n_queries : n_queries * group;
  require(sum <= most * (1 + tolerance) + 1e-6,
          "oracle: the attention of " + std::to_string(n_queries) + " queries sums to " + number_text(sum, 5) +
              " in layer " + std::to_string(head.layer) + " head " + std::to_string(head.kv_head) + "; at most " +
              number_text(most, 5) + " is possible");
}

std::string masses(Subject& subject, const char* spec) {
  const RecordedRun found = oracle_run(subject, subject.base_policy(), spec, false);
  for (int layer = 0; layer < found.run.model.n_layers; ++layer) {
    for (int head = 0; head < found.run.model.n_kv_heads; ++head) {
      if (!found.run.is_local_by_model(layer, head)) require_head({found.run, layer, head}, subject.tolerance());
    }
  }
  return "means, root mean squares, maxima and sums of " + std::to_string(found.run.oracle_horizon) +
         " tokens are consistent, from 0 to 1, " + std::to_string(found.horizons.size()) + " events";
}

/// What the last event reports against what masses and lifetimes give.
std::string recall(Subject& subject) {
  const RecordedRun found = oracle_run(subject, evicting_policy(subject), "", true);
  const int q = found.run.oracle_horizon - 1;
  const HeadMap wanted = head_metric(found.run, Metric::recall, q);
  const Oracle oracle(found.run);
  int n_heads = 0;
  for (std::size_t i = 0; i < wanted.values.size(); ++i) {
    const int layer = static_cast<int>(i) / wanted.n_kv_heads, head = static_cast<int>(i) % wanted.n_kv_heads;
    const float a = found.recall[i], b = wanted.values[i];
    const std::string what = "oracle: the recall of layer " + std::to_string(layer) + " head " + std::to_string(head) +
                             " at query " + std::to_string(q) + " is " + number_text(a, 4) +
                             "; masses and lifetimes give " + number_text(b, 4);
    require(std::isnan(a) == std::isnan(b), what);
    if (std::isnan(a)) continue;
    ++n_heads;
    // One token more or less: of two that are equally good an engine may have compared finer numbers.
    require(std::abs(a - b) <= 1.01 / std::max(1, oracle.counts(layer, head, q).capacity), what);
  }
  return "as masses and lifetimes give it, of " + std::to_string(n_heads) + " heads at query " + std::to_string(q);
}

}  // namespace

void check_oracle(Checks& checks, Subject& subject) {
  if (!subject.does("run")) return;
  checks.check("oracle: masses", [&] { return masses(subject, ""); });
  checks.check("oracle: masses with agg=mean", [&] { return masses(subject, "agg=mean"); });
  checks.check("oracle: recall", [&] { return recall(subject); });
}

}  // namespace kvscope::app::conformance
