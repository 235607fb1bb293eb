#include "engine/core/study/measure/common_oracle.h"

#include <algorithm>
#include <cmath>

#include "engine/core/study/measure/compare_runs.h"
#include "engine/core/support/text.h"

namespace kvscope {

namespace {

/// A run that ended before its last position is as long as it came; one that goes on will be so long.
int length_of(const RunRecord& run) { return run.status == RunStatus::running ? run.n_positions : run.n_tokens(); }

bool have_one_shape(const RunRecord& a, const RunRecord& b) {
  return a.evict_at.n_layers() == b.evict_at.n_layers() && a.evict_at.n_kv_heads() == b.evict_at.n_kv_heads();
}

/// Each has seen the same and can say what it is worth.
bool hold_the_same(const RunRecord& a, const RunRecord& b) {
  return !a.future_mass.empty() && !b.future_mass.empty() && a.oracle == b.oracle &&
         a.oracle_horizon == b.oracle_horizon && a.n_positions == b.n_positions && a.queries() == b.queries() &&
         a.policy == b.policy && a.changes == b.changes && a.heads == b.heads && a.evict_at == b.evict_at;
}

}  // namespace

std::optional<CommonOracle> CommonOracle::of(const RunRecord& a, const RunRecord& b) {
  if (a.future_mass.empty() && b.future_mass.empty()) return std::nullopt;
  if (tokens_part(a, b)) return std::nullopt;
  const RetentionGeometry geometry_a = a.geometry(), geometry_b = b.geometry();
  CommonOracle common;
  common.n_sink_ = std::max(geometry_a.n_sink, geometry_b.n_sink);
  common.window_ = std::max(geometry_a.window, geometry_b.window);
  const bool is_b = a.future_mass.empty() || (geometry_b.window > geometry_a.window && !b.future_mass.empty());
  common.teacher_ = is_b ? &b : &a;
  common.spec_ = common.teacher_->oracle;
  const int budget_a = a.policy.budget_tokens(a.n_positions), budget_b = b.policy.budget_tokens(b.n_positions);
  common.tokens_ = budget_a > 0 && budget_b > 0 ? std::min(budget_a, budget_b) : 0;
  const int n = common.n_ = std::min(length_of(a), length_of(b)), floor = common.n_sink_ + common.window_;
  if (common.tokens_ <= floor || common.tokens_ >= n) common.tokens_ = n / 4;
  if (common.tokens_ <= floor) common.tokens_ = floor + std::max(1, (n - floor) / 4);
  common.spec_.budget = OracleSpec::Budget{static_cast<double>(common.tokens_), false};
  common.is_own_ = hold_the_same(a, b);
  if (have_one_shape(a, b)) common.pair_ = {&a, &b};
  return common;
}

bool CommonOracle::asks(std::int32_t q) const {
  if (is_own_ || pair_[0] == nullptr) return false;
  for (const RunRecord* run : pair_) {
    for (int layer = 0; layer < run->evict_at.n_layers(); ++layer) {
      for (int head = 0; head < run->evict_at.n_kv_heads(); ++head) {
        if (std::ranges::any_of(run->evict_at.row(layer, head), [q](std::int32_t at) { return at <= q; })) return true;
      }
    }
  }
  return false;
}

std::string CommonOracle::note(const RunRecord& a, const RunRecord& b, std::int32_t q) const {
  const auto chance = [&](const RunRecord& run) {
    const double value = mean(metric(run, Metric::chance, q));
    return std::isnan(value) ? std::string("–") : fixed_text(value, 2);
  };
  // Which oracle is said where it is not the papers': masses of the run that it was asked for.
  OracleSpec kind = spec_;
  kind.budget.reset();
  const std::string title = kind.title() == OracleSpec().title() ? "" : " (" + kind.title() + ")";
  const int held = std::min(tokens_, n_);
  const std::string capacity = is_own_
                                   ? "as many tokens as both keep"
                                   : "k = " + std::to_string(held - n_sink_ - window_) + " of " + std::to_string(n_) +
                                         " tokens, " + std::to_string(held) + " with sinks and window";
  return "shared oracle" + title + ", " + capacity + "; chance A " + chance(a) + ", B " + chance(b);
}

}  // namespace kvscope
