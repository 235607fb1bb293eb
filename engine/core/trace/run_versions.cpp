#include "engine/core/trace/run_versions.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "engine/core/policy/policy.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/old_command.h"

namespace kvscope::trace {
namespace {

/// What a sentence like "kvpop mlstm, delay 64" says.
ScorerInfo scorer_of(const std::string& text) {
  ScorerInfo scorer{.kind = text.substr(0, text.find(',')), .text = text};
  std::replace(scorer.kind.begin(), scorer.kind.end(), ' ', '_');
  constexpr std::string_view kWord = "delay ";
  int delay = 0;
  if (const std::size_t at = text.find(kWord); at != std::string::npos) {
    const char* begin = text.data() + at + kWord.size();
    if (std::from_chars(begin, text.data() + text.size(), delay).ec == std::errc() && delay >= 0) scorer.delay = delay;
  }
  return scorer;
}

/// Of "KVpop mLSTM, delay 64, gate kvpop-mlstm".
std::string gate_of_text(std::string_view text) {
  constexpr std::string_view kGate = ", gate ";
  const std::size_t at = text.find(kGate);
  return at == std::string_view::npos ? "" : std::string(text.substr(at + kGate.size()));
}

/// Queries that look at token t: a sum of probabilities is so many times their mean.
float n_later(const RunRecord& run, int t) {
  const int horizon = run.oracle_horizon > 0 ? run.oracle_horizon : run.n_tokens();
  const int all = std::max(1, horizon - (t + run.geometry().window));
  return static_cast<float>(run.oracle.look_ahead == 0 ? all : std::min(all, run.oracle.look_ahead + 1));
}

/// Up to version 2 future_mass held sums where the spec said mass=sum.
void sums_to_means(RunRecord& run) {
  if (run.oracle.mass != OracleMass::sum) return;
  for (int layer = 0; layer < run.future_mass.n_layers(); ++layer) {
    for (int head = 0; head < run.future_mass.n_kv_heads(); ++head) {
      std::vector<float>& row = run.future_mass.row(layer, head);
      for (std::size_t t = 0; t < row.size(); ++t) {
        const float n = n_later(run, static_cast<int>(t));
        row[t] /= n;
      }
    }
  }
}

/// What agg=mean was called then is logmean now.
void exchange_means(OracleSpec& spec) {
  using Aggregate = OracleSpec::Aggregate;
  if (spec.aggregate == Aggregate::mean) {
    spec.aggregate = Aggregate::log_mean;
  } else if (spec.aggregate == Aggregate::log_mean) {
    spec.aggregate = Aggregate::mean;
  }
}

/// Between version 3 and 4 the newcomer's score made place for the next least's: neither says the other.
void forget_rivals(RunRecord& run) {
  if (policy_of(run.policy).plan(run.policy, {}).admission != Admission::least) return;
  for (Contest& contest : run.contests) contest.newcomer_effective = std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

HeadRule rule_before_7(const RunRecord& run) {
  try {
    const RetentionGeometry geometry = run.geometry();
    return rule_of(geometry, policy_of(run.policy).plan(run.policy, geometry).threshold);
  } catch (const Error&) {  // a budget that does not fit so few positions
    return {};
  }
}

void upgrade(RunRecord& run, int version, std::string_view command_line) {
  if (version < 2) run.scorer = scorer_of(run.scorer.text);
  if (version < 3) {
    exchange_means(run.oracle);
    sums_to_means(run);
    run.oracle.all_kinds = false;
  }
  if (version < 4) forget_rivals(run);
  if (version < 6) run.chunk = chunk_of_command(command_line);
  if (version < 7) {
    run.scorer.gate = gate_of_text(run.scorer.text);
    run.asked = asked_of_command(run, command_line);
  }
}

std::string old_numbers(int version) {
  if (version >= 3) return {};
  return "runs/recall, runs/mass_recall and heads/oracle_evict_at of this file (version " + std::to_string(version) +
         ") use an oracle with the policy's own top_k, which keeps everything if the policy has no budget. KVScope "
         "shows recomputed values";
}

}  // namespace kvscope::trace
