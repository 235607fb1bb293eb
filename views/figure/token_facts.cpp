#include "views/figure/token_facts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/policy/policy.h"
#include "engine/core/policy/scorer_text.h"
#include "engine/core/support/text.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

float at_or_nan(const HeadSeries<float>& series, int layer, int kv_head, std::int32_t t) {
  if (series.empty()) return std::numeric_limits<float>::quiet_NaN();
  const auto& row = series.row(layer, kv_head);
  return t >= 0 && static_cast<std::size_t>(t) < row.size() ? row[t] : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

TokenState HeadAtQuery::cache_state(std::int32_t t) const {
  return token_state(*run, geometry, q, t, lifetime_of(*run, layer, kv_head, t));
}

const HeadReads& HeadAtQuery::reads() const {
  if (!reads_) reads_ = std::make_shared<const HeadReads>(*run, layer, kv_head, q);
  return *reads_;
}

TokenState HeadAtQuery::state(std::int32_t t) const {
  const TokenState in_cache = cache_state(t);
  const bool kept = in_cache == TokenState::sink || in_cache == TokenState::window || in_cache == TokenState::kept;
  return kept && !run->reads.empty() && !reads().reads(t) ? TokenState::unread : in_cache;
}

bool HeadAtQuery::chosen(std::int32_t t) const {
  const TokenState now = cache_state(t);
  return now == TokenState::kept || now == TokenState::evicted;
}

Verdict HeadAtQuery::verdict(std::int32_t t) const {
  if (!chosen(t)) return Verdict::none;
  if (!oracle_) oracle_ = std::make_shared<const OracleSet>(*run, layer, kv_head, q);
  if (!oracle_->judges(t)) return Verdict::none;
  const bool oracle_keeps = oracle_->keeps(t);
  if (cache_state(t) == TokenState::kept) return oracle_keeps ? Verdict::kept_rightly : Verdict::kept_wrongly;
  return oracle_keeps ? Verdict::missed : Verdict::dropped_rightly;
}

float score_at(const RunRecord& run, int layer, int kv_head, std::int32_t t) {
  return at_or_nan(run.scores, layer, kv_head, t);
}
float mass_at(const RunRecord& run, int layer, int kv_head, std::int32_t t) {
  return at_or_nan(run.future_mass, layer, kv_head, t);
}

bool makes_scores(const RunRecord& run) {
  return policy_of(run.policy).plan(run.policy, run.geometry()).source != ScoreSource::none;
}

std::string score_text(const RunRecord& run, int layer, int kv_head, std::int32_t t) {
  if (const float score = score_at(run, layer, kv_head, t); !std::isnan(score)) return format_number(score, 4);
  return makes_scores(run) ? "not computed yet" : "this policy uses no scores";
}

ScoreRange score_range(const RunRecord& run, int layer, int kv_head) {
  if (run.scores.empty()) return {};
  std::vector<float> values;
  for (float v : run.scores.row(layer, kv_head)) {
    if (std::isfinite(v)) values.push_back(v);
  }
  if (values.size() < 2) return {};
  const auto quantile = [&](double f) {
    const auto nth = values.begin() + static_cast<std::ptrdiff_t>(f * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), nth, values.end());
    return *nth;
  };
  const ScoreRange range{quantile(0.02), quantile(0.98)};
  return range.hi > range.lo ? range : ScoreRange{range.lo - 0.5f, range.lo + 0.5f};
}

std::string identity_line(const RunRecord& run, int layer, int kv_head, std::int32_t t) {
  return "L" + std::to_string(layer) + " H" + std::to_string(kv_head) + " · token " + std::to_string(t) + " \"" +
         token_label(run.pieces[t], 40) + "\" · id " + std::to_string(run.ids[t]);
}

std::string life_line(const RunRecord& run, int layer, int kv_head, std::int32_t t) {
  const std::int32_t e = lifetime_of(run, layer, kv_head, t);
  if (e == kUndecided) return "undecided: still in the window";
  if (e == kNever) return "kept to the end";
  return "evicted at query " + std::to_string(e) + ", " + std::to_string(e - t) + " queries after it entered";
}

std::string policy_history(const RunRecord& run) {
  const auto budget = [](const PolicySpec& policy) -> std::string {
    if (!policy.budget) return method_name(policy);
    const double value = policy.budget->value;
    switch (policy.budget->kind) {
      case BudgetSpec::Kind::tokens:
        return number_text(value, 6) + " tokens";
      case BudgetSpec::Kind::keep:
        return number_text(100 * value, 4) + " %";
      case BudgetSpec::Kind::compression:
        break;
    }
    return number_text(value, 4) + "×";
  };
  std::string text = budget(run.policy);
  const PolicySpec* before = &run.policy;
  for (const PolicyChange& change : run.changes) {
    std::string what = budget(change.policy);
    if (what == budget(*before)) what = "changed";  // another parameter
    text += " > " + what + " @ " + std::to_string(change.q);
    before = &change.policy;
  }
  return text;
}

std::string why_no_recall(const RunRecord& run, bool is_preview) {
  if (!run.future_mass.empty()) return {};
  if (!is_preview && !run.recall_so_far.empty()) {
    const std::string seen = std::to_string(run.oracle_horizon) + " of " + std::to_string(run.n_tokens()) + " queries";
    if (run.status == RunStatus::running)
      return "Partial: the oracle has seen " + seen + ". Recall at earlier queries is available after the run.";
    return "Partial: the oracle had seen " + seen + " when the run ended. Replay it for recall at earlier queries.";
  }
  if (!is_preview || run.oracle_horizon == 0) {
    if (run.status == RunStatus::running) return "No oracle yet: recall needs the future attention of this run.";
    return "No oracle: recall needs future attention, which this run did not record.";
  }
  return "Recall with a window of " + std::to_string(run.geometry().window) +
         " needs future attention that A recorded only for its own window. Decode again to measure it.";
}

bool same_shape(const RunRecord& a, const RunRecord& b) {
  return a.evict_at.n_layers() == b.evict_at.n_layers() && a.evict_at.n_kv_heads() == b.evict_at.n_kv_heads();
}

}  // namespace kvscope::views
