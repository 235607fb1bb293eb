#include "engine/core/trace/run_versions.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "engine/core/policy/policy.h"
#include "engine/core/record/run_fields.h"

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

/// Queries that look at token t: a sum of probabilities is so many times their mean.
float n_later(const RunRecord& run, int t) {
  const int horizon = run.oracle_horizon > 0 ? run.oracle_horizon : run.n_tokens();
  const int all = std::max(1, horizon - (t + run.geometry().window));
  return static_cast<float>(run.oracle.look_ahead == 0 ? all : std::min(all, run.oracle.look_ahead + 1));
}

/// Up to version 2 future_mass held sums where the spec said mass=sum.
void scale_mass(RunRecord& run, bool to_sum) {
  if (run.oracle.mass != OracleMass::sum) return;
  for (int layer = 0; layer < run.future_mass.n_layers(); ++layer) {
    for (int head = 0; head < run.future_mass.n_kv_heads(); ++head) {
      std::vector<float>& row = run.future_mass.row(layer, head);
      for (std::size_t t = 0; t < row.size(); ++t) {
        const float n = n_later(run, static_cast<int>(t));
        row[t] = to_sum ? row[t] * n : row[t] / n;
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

/// Up to version 5 only the command line says it, where the run has one.
int chunk_of(const std::string& command_line) {
  const std::string line =
      command_line.substr(0, command_line.find(" --prompt "));  // a prompt may have these words too
  constexpr std::string_view kOption = " --chunk ";
  const std::size_t at = line.find(kOption);
  int chunk = 0;
  if (at == std::string::npos) return chunk;
  const auto read = std::from_chars(line.data() + at + kOption.size(), line.data() + line.size(), chunk);
  return read.ec == std::errc() && chunk > 0 && chunk < kMaxPositions ? chunk : 0;
}

}  // namespace

void upgrade(RunRecord& run, int version) {
  if (version < 2) run.scorer = scorer_of(run.scorer.text);  // local_heads: not known
  if (version < 3) {
    exchange_means(run.oracle);
    scale_mass(run, false);
    run.oracle.all_kinds = false;
  }
  if (version < 4) forget_rivals(run);
  if (version < 6) run.chunk = chunk_of(run.command_line);
}

RunRecord downgraded(RunRecord run, int version) {
  if (version < 5) run.thresholds.clear();
  if (version < 4) forget_rivals(run);
  if (version < 3) {
    scale_mass(run, true);
    exchange_means(run.oracle);
    run.future = FutureKinds();
    run.output_error = OutputError();
    run.log_gamma.clear();
    run.oracle.all_kinds = true;  // as nothing was said of it then
  }
  return run;
}

std::string old_numbers(int version) {
  if (version >= 3) return {};
  return "runs/recall, runs/mass_recall and heads/oracle_evict_at of this file (version " + std::to_string(version) +
         ") use an oracle with the policy's own top_k, which keeps everything if the policy has no budget. KVScope "
         "shows recomputed values";
}

}  // namespace kvscope::trace
